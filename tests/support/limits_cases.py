"""A small model and the lengths at which its limits are measured."""

import torch

from ascender.hf import AscenderConfig, AscenderForCausalLM

LENGTHS = (16, 40)
LAYERS, HEADS = 2, 3


def make_model(attention="ascender", normalizer="softmax", seed=0, **more):
    torch.manual_seed(seed)
    config = AscenderConfig(
        vocab_size=258, hidden_size=24, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        attention=attention, normalizer=normalizer, max_position_embeddings=64,
        initializer_range=0.4, **more,
    )  # fmt: skip
    return AscenderForCausalLM(config).eval()


def in_flock_scope(far=2, window=1, n_global=1, **more):
    """The same in flock scope: at most far + window + 1 + n_global keys a row."""
    scope = {"scope": "flock", "far": far, "window": window, "n_global": n_global}
    return make_model(attention_options=scope, **more)
