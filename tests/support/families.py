"""Tiny random models of the families that a retrofit is for, one entry each."""

import torch
import transformers as T

import ascender

V, N = 61, 11  # vocabulary, tokens
SIZES = {"vocab_size": V, "hidden_size": 30, "num_hidden_layers": 2, "num_attention_heads": 6}
WIDE = {**SIZES, "intermediate_size": 37, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**WIDE, "hidden_size": 48, "num_key_value_heads": 3, "max_position_embeddings": 67}
RULES = {"k": 3, "d_z": 5, "d_a": 7}


def _encoder(model, config, **more):
    return model(config(**WIDE, max_position_embeddings=67, **more))


CAUSAL = {
    "llama": lambda: T.LlamaForCausalLM(T.LlamaConfig(**GROUPED)),
    "mistral": lambda: T.MistralForCausalLM(T.MistralConfig(**GROUPED, sliding_window=4)),
    "qwen2": lambda: T.Qwen2ForCausalLM(T.Qwen2Config(**GROUPED)),
    "qwen3": lambda: T.Qwen3ForCausalLM(T.Qwen3Config(**GROUPED, head_dim=10)),
    "gemma": lambda: T.GemmaForCausalLM(T.GemmaConfig(**GROUPED, head_dim=10)),
    "gemma3": lambda: T.Gemma3ForCausalLM(
        T.Gemma3TextConfig(
            **GROUPED, head_dim=10, sliding_window=4, query_pre_attn_scalar=7,
            layer_types=["sliding_attention", "full_attention"],
        )
    ),
    "phi": lambda: T.PhiForCausalLM(T.PhiConfig(**GROUPED)),  # rotates half of the columns
    "gpt2": lambda: T.GPT2LMHeadModel(
        T.GPT2Config(
            vocab_size=V, n_embd=30, n_layer=2, n_head=6, n_positions=67, bos_token_id=1,
            eos_token_id=2, pad_token_id=0, scale_attn_by_inverse_layer_idx=True,
        )
    ),
    "opt": lambda: T.OPTForCausalLM(
        T.OPTConfig(**SIZES, ffn_dim=37, word_embed_proj_dim=30, max_position_embeddings=67)
    ),
}  # fmt: skip
ENCODERS = {
    "bert": lambda: _encoder(T.BertForMaskedLM, T.BertConfig),
    "roberta": lambda: _encoder(T.RobertaForMaskedLM, T.RobertaConfig),
    "modernbert": lambda: T.ModernBertForMaskedLM(
        T.ModernBertConfig(
            **{**WIDE, "hidden_size": 48}, max_position_embeddings=67, local_attention=4,
            layer_types=["sliding_attention", "full_attention"],
        )
    ),
}  # fmt: skip
IMAGES = {
    "vit": lambda: T.ViTForImageClassification(
        T.ViTConfig(
            hidden_size=30, num_hidden_layers=2, num_attention_heads=6, intermediate_size=37,
            image_size=12, patch_size=4, num_labels=5,
        )
    ),
}  # fmt: skip
TEXT = {**CAUSAL, **ENCODERS}
ALL = {**TEXT, **IMAGES}


def make(name, dtype=torch.float32):
    torch.manual_seed(0)
    model = ALL[name]().to(dtype).eval()
    with torch.no_grad():  # random weights as they start give flat scores: everything would pass
        for p in model.parameters():
            if p.ndim == 2:
                p.mul_(5)
    return model


def inputs(name, padded=None, dtype=torch.float32):
    """A batch of 2; the second text cut on the left or right side."""
    g = torch.Generator().manual_seed(1)
    if name in IMAGES:
        return {"pixel_values": torch.randn(2, 3, 12, 12, generator=g, dtype=dtype)}
    ids, mask = torch.randint(3, V, (2, N), generator=g), torch.ones(2, N, dtype=torch.long)
    if padded:
        cut = slice(0, 4) if padded == "left" else slice(N - 4, None)
        ids[1, cut], mask[1, cut] = 0, 0
    batch = {"input_ids": ids, "attention_mask": mask}
    if name == "roberta":  # would count its positions by which tokens are padding
        batch["position_ids"] = torch.arange(2, N + 2).expand(2, -1)
    return batch


def stir(model, seed=2):
    """A swarm as if it had been trained: every rule acts."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in ascender.swarm_parameters(model):
            p.add_(torch.randn(p.shape, generator=g).to(p) * (1.0 if p.ndim == 1 else 0.3))
    return model


def retrofitted(name, dtype=torch.float32, **rules):
    return stir(ascender.retrofit(make(name, dtype), {**RULES, **rules}))


def logits(model, batch):
    with torch.no_grad():
        return model(**batch).logits
