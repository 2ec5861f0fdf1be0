"""Packed sequences: each is what it is alone, and none sees another."""

import pytest
import torch

from ascender import AscenderAttention, LowRank, asc_attention, asc_attention_varlen
from ascender.core.normalizers import normalizer
from ascender.core.rules import Rules

LENGTHS = (7, 0, 1, 12, 5)
TOTAL, H, G, D, E, Z, A = 25, 4, 2, 6, 5, 3, 7
CU = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()])
STARTS = [slice(a, a + n) for a, n in zip(CU.tolist(), LENGTHS, strict=False)]
RULES = Rules(k=3, omega_sep=0.7, kappa=2.0)
CASES = {
    "causal": {"causal": True},
    "full": {},
    "window": {"causal": True, "window": 3, "n_global": 1},
    "flock": {"causal": True, "scope": "flock", "rules": Rules(k=2, far=2), "window": 1},
    "sparse": {"normalizer": "entmax15"},
    "dense": {"causal": True, "backend": "dense"},
}


def tensors(seed=0):
    g = torch.Generator().manual_seed(seed)
    widths = ((H, D), (G, D), (G, E), (1, Z), (1, A))
    return [torch.randn(TOTAL, *w, generator=g) for w in widths]


def alone(inputs, options, part):
    """asc_attention on one sequence."""
    batch = [t[part].transpose(0, 1).unsqueeze(0) for t in inputs]
    return asc_attention(*batch, **options)[0].transpose(0, 1)


def prepared(options):
    options = {"rules": RULES, **options}
    if isinstance(name := options.get("normalizer"), str):
        options["normalizer"] = normalizer(name, heads=H)
    return options


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_every_sequence_is_what_it_is_alone(case, dtype):
    options = prepared(CASES[case])
    leaves = [t.requires_grad_() for t in tensors()]
    weight = torch.randn(TOTAL, H, E, generator=torch.Generator().manual_seed(1))
    out = asc_attention_varlen(*leaves, cu_seqlens=CU.to(dtype), **options)
    assert out.shape == (TOTAL, H, E)
    want = torch.cat([alone(leaves, options, part) for part in STARTS if part.stop > part.start])
    assert torch.allclose(out, want, atol=1e-5)
    found = (torch.autograd.grad((t * weight).sum(), leaves) for t in (out, want))
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=2e-5)


def test_lists_biases_and_unrotated_keys_are_packed_too():
    inputs, g = tensors(), torch.Generator().manual_seed(2)
    bare = torch.randn(TOTAL, G, D, generator=g)
    other = LowRank(torch.randn(TOTAL, 1, 2, generator=g), torch.randn(TOTAL, H, 2, generator=g))
    lists = torch.randint(-1, 5, (TOTAL, 3), generator=g)
    options = {"rules": RULES, "causal": True, "backend": "dense"}
    out = asc_attention_varlen(
        *inputs, cu_seqlens=CU, max_seqlen=20, bare=bare, other=other, neighbours=lists, **options
    )
    part = STARTS[3]
    sides = (side[part].transpose(0, 1) for side in (other.left, other.right))
    own = {"other": LowRank(*sides), "neighbours": lists[part]}
    own["bare"] = bare[part].transpose(0, 1).unsqueeze(0)
    assert torch.allclose(out[part], alone(inputs, {**options, **own}, part), atol=1e-5)


@pytest.mark.parametrize("value", [5.0, torch.nan])
def test_a_sequence_changes_no_other(value):
    """And with everything in one sequence it does: this test can fail."""
    inputs, options = tensors(), {"rules": RULES}
    changed = [t.clone() for t in inputs]
    for t in changed:
        t[STARTS[3]] = value
    for cu, leaks in ((CU, False), (CU[[0, -1]], True)):
        a, b = (asc_attention_varlen(*ts, cu_seqlens=cu, **options) for ts in (inputs, changed))
        for s in (0, 2, 4):
            same = torch.allclose(a[STARTS[s]], b[STARTS[s]], atol=1e-6)
            assert same != leaks


def test_losses_are_means_over_all_tokens():
    options = {"rules": RULES, "causal": True, "return_losses": True}
    _, losses = asc_attention_varlen(*tensors(), cu_seqlens=torch.tensor([0, 25]), **options)
    batch = [t.transpose(0, 1).unsqueeze(0) for t in tensors()]
    assert torch.allclose(losses.coh, asc_attention(*batch, **options)[1].coh, atol=1e-5)


@pytest.mark.parametrize("position", ["rope", "alibi", "learned", None])
def test_a_layer_takes_packed_tokens(position):
    torch.manual_seed(0)
    layer = AscenderAttention(16, 2, position=position, k=3)
    x = torch.randn(1, TOTAL, 16)
    y = layer(x, causal=True, cu_seqlens=CU, max_seqlen=12)
    for part in STARTS:
        if part.stop > part.start:
            assert torch.allclose(y[:, part], layer(x[:, part], causal=True), atol=1e-5)


ERRORS = {
    "cu_seqlens starts at 1; expected 0": [1, 25],
    "cu_seqlens ends at 24; expected 25, the number of tokens": [0, 24],
    "cu_seqlens goes from 9 to 4 at sequence 1; expected numbers": [0, 9, 4, 25],
    r"cu_seqlens has shape \(1,\); expected \(sequences \+ 1,\)": [0],
    "cu_seqlens has dtype torch.float32; expected int32 or int64": [0.0, 25.0],
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("message", ERRORS)
def test_errors_name_the_number(message):
    with pytest.raises((TypeError, ValueError), match=message):
        asc_attention_varlen(*tensors(), cu_seqlens=torch.tensor(ERRORS[message]), rules=RULES)


@pytest.mark.usefixtures("unchecked")
def test_errors_name_the_argument():
    run = asc_attention_varlen
    q, k, v, z, h = tensors()
    with pytest.raises(TypeError, match="cu_seqlens is list; expected an int32 or int64 tensor"):
        run(q, k, v, z, h, cu_seqlens=[0, 25], rules=RULES)
    with pytest.raises(ValueError, match="max_seqlen = 3; expected at least 12"):
        run(q, k, v, z, h, cu_seqlens=CU, max_seqlen=3, rules=RULES)
    with pytest.raises(ValueError, match="k has 24 tokens; expected 25 as q has"):
        run(q, k[1:], v, z, h, cu_seqlens=CU, rules=RULES)
    with pytest.raises(ValueError, match=r"z is \(25, 3\); expected a tensor \(tokens, heads,"):
        run(q, k, v, z[:, 0], h, cu_seqlens=CU, rules=RULES)
    with pytest.raises(TypeError, match="no option 'mask'; expected no mask: sequences have no"):
        run(q, k, v, z, h, cu_seqlens=CU, rules=RULES, mask=torch.ones(25) > 0)
    with pytest.raises(TypeError, match="other is Tensor; expected LowRank with sides"):
        run(q, k, v, z, h, cu_seqlens=CU, rules=RULES, other=torch.zeros(25, 25))
    layer = AscenderAttention(16, 2)
    with pytest.raises(TypeError, match="mask with cu_seqlens; expected no mask"):
        layer(torch.zeros(1, 25, 16), cu_seqlens=CU, mask=torch.ones(1, 25) > 0)
    with pytest.raises(ValueError, match=r"x is \(2, 25, 16\) with cu_seqlens; expected \(1, tok"):
        layer(torch.zeros(2, 25, 16), cu_seqlens=CU)
