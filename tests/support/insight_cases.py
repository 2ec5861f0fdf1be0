"""A small model with rules, and inputs for it."""

import torch

from ascender.hf import AscenderConfig, AscenderForTokenClassification


def model(omega=0.4, layers=2, k=4, **config):
    torch.manual_seed(0)
    config = AscenderConfig(
        vocab_size=13, hidden_size=12, num_hidden_layers=layers, num_attention_heads=3,
        num_labels=3, max_position_embeddings=17,
        attention_options={"k": k, **config.pop("options", {})}, **config,
    )  # fmt: skip
    model = AscenderForTokenClassification(config).double().eval()
    g = torch.Generator().manual_seed(1)
    for name, p in model.named_parameters():
        if "omega" in name:
            p.data = omega * (0.5 + torch.rand(p.shape, generator=g).double())
        if "tau_score" in name:
            p.data = p.data + 0.3
    return model


def inputs(lengths=(11, 7)):
    ids = torch.randint(0, 13, (len(lengths), max(lengths)),
                        generator=torch.Generator().manual_seed(2))  # fmt: skip
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return {"input_ids": ids, "attention_mask": mask.long()}
