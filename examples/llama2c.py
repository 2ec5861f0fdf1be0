"""Llama weights in the format of llama2.c (stories15M and its kin) as a transformers model.

    model.bin      7 int32: dim, hidden, layers, heads, kv_heads, vocabulary, length; then float32
                   embeddings, and one after the other over all layers: attention norms, W_Q, W_K,
                   W_V, W_O, feed-forward norms, W_1, W_2, W_3; the last norm; cos, sin. The
                   vocabulary is negative where the output has weights of its own, which follow
    tokenizer.bin  int32 longest; then of each token: float32 score, int32 length, its bytes

llama2.c rotates neighbouring columns (2i, 2i + 1), transformers columns i and i + d/2: the rows of
W_Q and W_K are reordered by head. Nothing is executed that is read.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, LlamaTokenizer
from transformers.convert_slow_tokenizer import generate_merges

BYTES = range(3, 259)  # the ids of single bytes


class Stream:
    """Tensors one after the other out of bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, *shape: int) -> Tensor:
        n = prod(shape)
        if self.at + 4 * n > len(self.data):
            raise ValueError(
                f"{len(self.data)} bytes; expected {4 * n} more behind byte {self.at}: this is "
                "not llama2.c's format, or not all of it"
            )
        flat = np.frombuffer(self.data, np.float32, n, self.at)
        self.at += 4 * n
        return torch.from_numpy(flat.copy()).view(shape)


def read_model(data: bytes) -> tuple[LlamaForCausalLM, int]:
    """The model, and how many bytes it took."""
    dim, hidden, L, heads, kv, vocabulary, length = header = struct.unpack_from("<7i", data)
    if min(header[:5]) < 1 or dim % heads or length < 1:
        raise ValueError(f"a header of {header}; expected llama2.c's seven sizes")
    tied, vocabulary, d = vocabulary > 0, abs(vocabulary), dim // heads
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=dim, intermediate_size=hidden, num_hidden_layers=L,
        num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=length,
        rms_norm_eps=1e-5, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    stream = Stream(data, 28)
    take = stream.take
    state = {"model.embed_tokens.weight": take(vocabulary, dim)}
    norms = {"input_layernorm": take(L, dim)}
    kinds = {
        "self_attn.q_proj": _halves(take(L, heads, d // 2, 2, dim)),
        "self_attn.k_proj": _halves(take(L, kv, d // 2, 2, dim)),
        "self_attn.v_proj": take(L, kv * d, dim),
        "self_attn.o_proj": take(L, dim, heads * d),
    }
    norms["post_attention_layernorm"] = take(L, dim)
    kinds["mlp.gate_proj"] = take(L, hidden, dim)
    kinds["mlp.down_proj"] = take(L, dim, hidden)
    kinds["mlp.up_proj"] = take(L, hidden, dim)
    state["model.norm.weight"] = take(dim)
    for name, stacked in {**norms, **kinds}.items():
        state |= {f"model.layers.{i}.{name}.weight": w for i, w in enumerate(stacked)}
    take(2, length, d // 2)  # cos and sin: transformers computes them
    state["lm_head.weight"] = state["model.embed_tokens.weight"] if tied else take(vocabulary, dim)
    model = LlamaForCausalLM(config)
    model.load_state_dict(state)
    return model.eval(), stream.at


def _halves(w: Tensor) -> Tensor:
    """(L, heads, d/2, 2, dim) with pairs (2i, 2i + 1) → rows with pairs (i, i + d/2)."""
    return w.transpose(2, 3).flatten(1, 3)


def read_tokenizer(data: bytes, size: int, at: int = 0) -> LlamaTokenizer:
    """The tokenizer of `size` tokens: merges are whatever makes a token of two others, the best
    score first."""
    at, scores, ids = at + 4, {}, {}
    for i in range(size):
        score, n = struct.unpack_from("<fi", data, at)
        raw = data[at + 8 : at + 8 + n]
        at += 8 + n
        named = f"<0x{i - BYTES.start:02X}>" if i in BYTES else raw.decode().replace(" ", "▁")
        token = named.strip("\n") if i < BYTES.start else named
        ids[token], scores[token] = i, score
    skip = {token for token, i in ids.items() if i < BYTES.stop}
    return LlamaTokenizer(
        vocab=ids, merges=generate_merges(ids, scores, skip), pad_token="<unk>", add_bos_token=True
    )


def convert(data: bytes, folder: Path) -> Any:
    """model.bin with tokenizer.bin behind it → a folder that from_pretrained loads; returns the
    model."""
    model, end = read_model(data)
    tokenizer = read_tokenizer(data, model.config.vocab_size, end)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model
