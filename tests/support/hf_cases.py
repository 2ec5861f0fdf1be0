"""Tiny Hugging Face models of every head, and what each takes."""

import torch
import transformers

from ascender.hf import (
    AscenderConfig,
    AscenderForCausalLM,
    AscenderForConditionalGeneration,
    AscenderForMaskedLM,
    AscenderForSequenceClassification,
    AscenderForTokenClassification,
    AscenderModel,
)
from ascender.nn.baselines import ATTENTIONS

transformers.utils.logging.disable_progress_bar()

B, N, M, V, D, H, LABELS = 2, 11, 7, 37, 24, 2, 5
HEADS = {
    "model": (AscenderModel, transformers.AutoModel),
    "causal": (AscenderForCausalLM, transformers.AutoModelForCausalLM),
    "masked": (AscenderForMaskedLM, transformers.AutoModelForMaskedLM),
    "sequence": (
        AscenderForSequenceClassification,
        transformers.AutoModelForSequenceClassification,
    ),
    "token": (AscenderForTokenClassification, transformers.AutoModelForTokenClassification),
    "seq2seq": (AscenderForConditionalGeneration, transformers.AutoModelForSeq2SeqLM),
}
OPTIONS = {
    "ascender": {"k": 3, "geometry": "shared"},
    "shuffled": {"k": 3},
    "longformer": {"window": 4},
    "bigbird": {"block": 3},
    "performer": {"features": 32},
    "graph": {"max_distance": 2},
}


def config(**fields):
    few = dict(
        vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=H,
        max_position_embeddings=64, initializer_range=0.15, pad_token_id=0, bos_token_id=1,
        decoder_start_token_id=1, num_labels=LABELS,
    )  # fmt: skip
    few["attention_options"] = OPTIONS.get(fields.get("attention", "ascender"), {})
    return AscenderConfig(**{**few, **fields})


def fits(**fields):
    """Whether a config lets these go together."""
    try:
        config(**fields)
    except Exception as error:
        if "expected one of" not in str(error):
            raise
        return False
    return True


PAIRS = [
    (attention, position)
    for attention in ATTENTIONS
    for position in ("rope", "alibi", "shaw", "learned")
    if fits(attention=attention, position=position)
]


def make(head="causal", seed=0, **fields):
    torch.manual_seed(seed)
    model = HEADS[head][0](config(**fields)).eval()
    for p in model.parameters():  # numbers that start equal would hide a swap
        p.data += 0.05 * torch.randn_like(p)
    return model


def tokens(b=B, n=N, seed=1):
    return torch.randint(3, V, (b, n), generator=torch.Generator().manual_seed(seed))


def inputs(head, labels=True):
    """What a head takes."""
    inputs = {"input_ids": tokens()}
    wanted = {
        "model": None,
        "causal": tokens(),
        "masked": tokens(seed=2),
        "sequence": torch.tensor([4, 1]),
        "token": tokens(seed=3) % LABELS,
        "seq2seq": tokens(n=M, seed=4),
    }[head]
    if wanted is not None and labels:
        inputs["labels"] = wanted
    elif head == "seq2seq":
        inputs["decoder_input_ids"] = tokens(n=M, seed=4)
    return inputs


def states(head, output):
    return output.last_hidden_state if head == "model" else output.logits
