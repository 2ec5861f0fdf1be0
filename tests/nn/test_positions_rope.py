"""Rotary positions against Llama, and their laws."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ascender.nn.positions import Rope, position
from ascender.nn.positions.rope import LONGEST, cos_sin, turn
from support.position_cases import SIZES, B, D, H, N, places, randn

SCALED = {
    "plain": ({}, {"rope_type": "default", "rope_theta": 10000.0}),
    "base": ({"base": 5e5}, {"rope_type": "default", "rope_theta": 5e5}),
    "linear": (
        {"scaling": "linear", "factor": 4.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    ),
    # theirs grows with the length: at 3 times the one learned on, factor 2 is ours at 5
    "ntk": (
        {"scaling": "ntk", "factor": 5.0},
        {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    ),
    "llama3": (
        {"base": 5e5, "scaling": "llama3", "factor": 8.0, "original_length": 200},
        {
            "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 200,
        },
    ),
}  # fmt: skip


def llama(theirs, d, length=23):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=H * d, num_attention_heads=H, head_dim=d, max_position_embeddings=length,
        rope_parameters=theirs,
    )  # fmt: skip
    return LlamaRotaryEmbedding(config)


def test_partial_rotary_is_gpt_neoxs():
    """Theirs turns the first half of the head; ours the first half of the pairs, whose second
    numbers are d/2 further on."""
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import (
        GPTNeoXRotaryEmbedding,
        apply_rotary_pos_emb,
    )

    d, p = 12, torch.arange(31)
    rotary = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    config = GPTNeoXConfig(hidden_size=H * d, num_attention_heads=H, rope_parameters=rotary)
    q, k = (randn(B, H, len(p), d, seed=i, dtype=torch.float32) for i in (1, 2))
    cos, sin = GPTNeoXRotaryEmbedding(config)(q, p.expand(B, -1))
    assert cos.shape[-1] == d // 2
    here = torch.tensor([0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11])  # the order of theirs
    theirs = [t[..., here] for t in (q, k)]
    want = apply_rotary_pos_emb(*theirs, cos, sin)
    rope = Rope(d, fraction=0.5)
    for t, w in zip((q, k), want, strict=True):
        got = rope.rotate(t, p)[..., here]
        assert torch.allclose(got, w, atol=1e-5)
        assert torch.equal(got[..., d // 2 :], t[..., here][..., d // 2 :])


@pytest.mark.parametrize("fraction", [0, 1.5, -1, 0.01])
def test_the_share_that_turns_is_checked(fraction):
    with pytest.raises(ValueError, match=r"fraction = .*expected"):
        Rope(8, fraction=fraction)


@pytest.mark.parametrize("kind", SCALED)
def test_rope_is_llamas(kind):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    ours, theirs = SCALED[kind]
    d, length = 10, 23
    rope, p = Rope(d, **ours), torch.arange(3 * length if kind == "ntk" else 31)
    q, k = (randn(B, H, len(p), d, seed=i, dtype=torch.float32).requires_grad_() for i in (1, 2))
    reference = llama(theirs, d, length)
    cos, sin = reference(q, p.expand(B, -1))
    assert torch.allclose(rope.theta.float(), reference.inv_freq, rtol=2e-6)
    want = apply_rotary_pos_emb(q, k, cos, sin)
    got = rope.rotate(q, p), rope.rotate(k, p.expand(B, -1))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, atol=3e-5)
    grads = [torch.autograd.grad(sum(y.sin().sum() for y in ys), [q, k]) for ys in (got, want)]
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, atol=3e-5)


def test_llama3_has_all_three_bands():
    ours, _ = SCALED["llama3"]
    ratio = Rope(10, base=5e5).theta / Rope(10, **ours).theta
    assert ratio[0] == 1
    assert ratio[-1] == 8
    assert ((ratio > 1) & (ratio < 8)).any()


def test_interleaved_pairs_would_be_noticed():
    """The other layout is not Llama's."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    d, p = 10, torch.arange(31)
    q = randn(B, H, len(p), d, dtype=torch.float32)
    cos, sin = llama(SCALED["plain"][1], d)(q, p.expand(B, -1))
    mixed = torch.cat([q[..., ::2], q[..., 1::2]], -1)
    want = apply_rotary_pos_emb(q, q, cos, sin)[0]
    assert not torch.allclose(Rope(d).rotate(mixed, p), want, atol=0.1)


@given(places(), st.sampled_from(sorted(SCALED)), st.integers(-50, 500))
def test_rope_knows_only_distance(place, kind, shift):
    rope, (p, j) = Rope(D, **SCALED[kind][0]), place
    q, k = randn(B, H, len(p), D), randn(B, H, len(j), D, seed=1)

    def scores(s):
        return rope.rotate(q, p + s) @ rope.rotate(k, j + s).mT

    assert torch.allclose(scores(0), scores(shift), atol=1e-9)
    turned = rope.rotate(q, p)
    assert torch.allclose(turned.norm(dim=-1), q.norm(dim=-1))
    assert torch.allclose(rope.rotate(turned, -p), q)
    assert torch.equal(rope.rotate(q, 0 * p), q)
    if shift and int(p[-1]):
        assert not torch.allclose(rope.rotate(q, p + shift), turned)


@pytest.mark.parametrize("scaling", ["linear", "ntk", "llama3"])
@pytest.mark.parametrize("d", [2, 6])
def test_factor_one_is_no_scaling(scaling, d):
    plain, t, p = Rope(d), randn(B, H, N, d), torch.arange(7, 7 + N)
    assert torch.allclose(Rope(d, scaling=scaling).rotate(t, p), plain.rotate(t, p))
    scaled = Rope(d, scaling=scaling, factor=4.0, original_length=4)
    assert math.isfinite(scaled.rotate(t, p).sum())
    if d > 2:
        assert not torch.allclose(scaled.rotate(t, p), plain.rotate(t, p))


def test_far_positions_keep_their_digits():
    """Float32 tokens, a hundred thousand positions on: what float32 angles would lose."""
    rope, far = Rope(64), 100_003
    q, k = (randn(B, H, N, 64, seed=i, dtype=torch.float32) for i in (1, 2))

    def scores(p, angles=rope.turns):
        return turn(q, *angles(p, torch.float32)) @ turn(k, *angles(p, torch.float32)).mT

    p = torch.arange(N)
    assert (scores(p) - scores(p + far)).abs().max() < 2e-5
    coarse = scores(p + far, lambda p, dtype: cos_sin(p, rope.theta.float(), dtype))
    assert (scores(p) - coarse).abs().max() > 1e-3


def test_rope_takes_positions_by_batch_of_any_int():
    rope, t = Rope(D), randn(B, H, N, D)
    p = torch.tensor([[0, 1, 2, 3, 4], [70, 3, 9, 9, 0]])
    want = torch.cat([rope.rotate(t[b : b + 1], p[b]) for b in range(B)])
    assert torch.equal(rope.rotate(t, p), want)
    assert torch.equal(rope.rotate(t, p.int()), want)
    assert not torch.allclose(rope.rotate(t, p[:1]), want)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_table_is_what_is_computed(dtype):
    rope = Rope(D)
    t = randn(B, H, 4, D).to(dtype)
    p = torch.tensor([0, 63, 64, 4001])
    far = torch.tensor([0, 63, LONGEST, -2])
    wide = torch.promote_types(dtype, torch.float32)
    for at in (p, far):
        got, want = rope.rotate(t, at), turn(t, *cos_sin(at, rope.theta, wide))
        assert got.dtype == dtype
        assert torch.equal(got, want)
        true = turn(t.double(), *cos_sin(at, rope.theta, torch.double))
        assert (got - true).abs().max() <= 8 * torch.finfo(dtype).eps


def test_a_table_made_in_inference_mode_serves_training():
    rope, p = Rope(D, base=1234.5), torch.arange(N)
    with torch.inference_mode():
        rope.rotate(randn(B, H, N, D), p)
    t = randn(B, H, N, D).requires_grad_()
    rope.rotate(t, p).square().sum().backward()
    assert torch.allclose(t.grad, 2 * t)


@pytest.mark.parametrize("name", ["rope", "alibi"])
def test_casts_and_meta_leave_constants_whole(name):
    constant, sizes = {"rope": "theta", "alibi": "slopes"}[name], {**SIZES, "heads": 11}
    made, want = position(name, **sizes), getattr(position(name, **sizes).double(), constant)
    assert not made.state_dict()
    assert torch.equal(getattr(made.bfloat16(), constant), want.to(getattr(made, constant).dtype))
    assert torch.equal(getattr(made.double(), constant), want)
    assert not torch.equal(want.bfloat16().double(), want)
    with torch.device("meta"):
        empty = position(name, **sizes)
    assert torch.equal(getattr(empty.to_empty(device="cpu").double(), constant), want)
