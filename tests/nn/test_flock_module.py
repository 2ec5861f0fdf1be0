"""AscenderAttention in flock scope: decoding equals the full pass under every option, and what
training does to it (dropout, checkpoints, torch.compile) changes nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ascender.core.backends.dense import dense
from ascender.core.losses import collect
from ascender.core.normalizers import NORMALIZERS
from ascender.nn.cache import CrossKV
from support.laws import gap
from support.module_cases import (
    DIM,
    B,
    N,
    beams_apart,
    cache_gradients_apart,
    check_nan_in_a_cache,
    check_rows_of_a_cache,
    make,
    tokens,
)

pytestmark = pytest.mark.usefixtures("unchecked")

FLOCK = {"scope": "flock", "far": 4, "window": 2, "n_global": 1}
VARIANTS = {
    "flock": {},
    "no window": {"window": None, "n_global": 0},
    "window alone": {"far": 0},  # a bounded cache
    "globals alone": {"far": 0, "window": 0, "n_global": 3},
    "far by head": {"far": [4, 0, 7]},
    "everyone": {"far": 50},
    "tied": {"affinity": "tied"},
    "tied without term": {"affinity": "tied", "affinity_term": False},
    "without term": {"affinity_term": False},
    "distance": {"affinity_bias": 8},
    "affinity by head": {"affinity_heads": 3},
    "shared": {"geometry": "shared"},
    "local": {"local_scope": "neighbours"},
    "scores": {"neighbours": "scores"},
    "qk_norm": {"qk_norm": True},
    "grouped": {"kv_heads": 1},
    "grouped rope": {"kv_heads": 1, "position": "rope"},
    "raw": {"standardise": False},
    **{name: {"position": name} for name in ("rope", "alibi", "t5", "shaw", "learned")},
    "rope distance": {"position": "rope", "affinity_bias": 8},
    "rope window alone": {"position": "rope", "far": 0},
    "alibi window alone": {"position": "alibi", "far": 0},
    **{name: {"normalizer": name} for name in NORMALIZERS if name != "softmax"},
    "ssmax window alone": {"normalizer": "ssmax", "far": 0},
}  # fmt: skip


def layer(name, **more):
    made = make(**{**FLOCK, **VARIANTS[name], **more})
    if made.distance_bias is not None:
        made.distance_bias.data.copy_(torch.linspace(-1, 1, made.distance_bias.numel()))
    return made


def decoded(module, x, real=None, first=7):
    """The rows of a prefill, and of the tokens after it: one, three, then one at a time."""
    cache, n = module.new_cache(), x.shape[1]
    ends = [first, first + 1, first + 4, *range(first + 5, n + 1)]
    rows, start = [], 0
    with torch.no_grad():
        for end in ends:
            mask = None if real is None else real[:, :end]
            rows.append(module(x[:, start:end], cache=cache, mask=mask))
            start = end
    assert len(cache) == n
    return torch.cat(rows, 1), cache


# Decode equals prefill.


@pytest.mark.parametrize("name", VARIANTS)
def test_decoding_equals_the_full_pass(name):
    module, x = layer(name), tokens()
    want = module(x, causal=True)
    assert torch.allclose(decoded(module, x)[0], want, atol=1e-10)
    assert not torch.allclose(module(x), want, atol=1e-3), "the full pass is causal"


@pytest.mark.parametrize("name", VARIANTS)
def test_decoding_in_float32(name):
    """By the C kernels, where there are any."""
    module, x = layer(name).float(), tokens().float()
    assert gap(decoded(module, x)[0], module(x, causal=True)) <= 1e-5


@pytest.mark.parametrize("name", VARIANTS)
def test_the_definition(name):
    """The layer's backend and dense are the same, gradients included."""
    module, x = layer(name), tokens().requires_grad_()
    found = []
    for backend in ("auto", "dense"):
        module.zero_grad()
        out = module(x, causal=True, backend=backend)
        (grad,) = torch.autograd.grad(out.square().sum(), x, retain_graph=True)
        out.square().sum().backward()
        found.append([out, grad, *(p.grad for p in module.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1])
    assert all(gap(a, b) <= 1e-9 for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    "name", ["flock", "window alone", "distance", "grouped rope", "ssmax", "t5", "scores"]
)
def test_decoding_with_left_padding(name):
    module, x = layer(name), tokens()
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :5] = False
    want, (got, _) = module(x, causal=True, mask=real), decoded(module, x, real, first=9)
    assert torch.allclose(got[real], want[real], atol=1e-10)


def test_padding_that_begins_after_real_tokens():
    module, x = layer("flock"), tokens(9)
    cache, real = module.new_cache(), torch.tensor([[True], [False]])
    with torch.no_grad():
        first = module(x[:, :8], cache=cache)
        last = module(x[:, 8:], cache=cache, mask=real)
    mask = torch.ones(B, 9, dtype=torch.bool)
    mask[1, 8] = False
    want = module(x, causal=True, mask=mask)
    assert torch.allclose(torch.cat([first, last], 1), want, atol=1e-10)


@pytest.mark.parametrize("name", ["window alone", "rope window alone", "globals alone"])
def test_a_bounded_cache_stays_bounded(name):
    """Without far keys nobody looks further back than window and globals."""
    module, x = layer(name), tokens(120)
    cache, rows, sizes = module.new_cache(), [], []
    with torch.no_grad():
        for token in x.split(1, 1):
            rows.append(module(token, cache=cache))
            sizes.append(cache.nbytes())
    assert torch.allclose(torch.cat(rows, 1), module(x, causal=True), atol=1e-10)
    assert cache.held <= 2 * (module.flock_window + module.flock_globals) + 1
    assert sizes[-1] == sizes[50], "memory does not grow with the stream"


def test_a_cache_with_far_keys_holds_everybody():
    module, x = layer("flock"), tokens(60)
    assert decoded(module, x)[1].held == 60


@pytest.mark.parametrize("name", ["flock", "window alone", "tied"])
def test_beams_reorder(name):
    assert beams_apart(layer(name), tokens(), 16) < 1e-10


def test_gradients_through_a_cache():
    assert cache_gradients_apart(layer("distance"), tokens(12), 8) < 1e-9


def test_rows_of_a_cache_by_the_definition():
    check_rows_of_a_cache(layer("distance"), tokens())


def test_nan_in_a_cache_reaches_later_rows_of_its_text_only():
    check_nan_in_a_cache(layer("flock"), tokens())


# Lists.


def test_lists_of_decoding_are_those_of_prefill():
    module, x = layer("distance"), tokens()
    whole = module.flock(module.call(x, causal=True))
    cache = module.new_cache()
    with torch.no_grad():
        module(x[:, :10], cache=cache)
        for i in range(10, N):
            row = module.flock(module.call(x[:, i : i + 1], cache=cache))
            for name in ("far", "members"):
                got, want = (getattr(f, name).sort(-1).values for f in (row, whole))
                same = [{*a.tolist()} - {-1} == {*b.tolist()} - {-1}
                        for a, b in zip(got[:, :, 0].flatten(0, 1), want[:, :, i].flatten(0, 1),
                                        strict=True)]  # fmt: skip
                assert all(same), (name, i)


# Training.


def test_dropout():
    module, x = layer("flock", dropout=0.5).train(), tokens(9)
    torch.manual_seed(0)
    with torch.no_grad():
        many = torch.stack([module(x, causal=True) for _ in range(80)])
    module.eval()
    want = module(x, causal=True)
    assert torch.equal(module(x, causal=True), want)
    assert many.std(0).max() > 0.01
    assert gap(many.mean(0), want) < 0.3, "its mean is what is there without it"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_checkpoint(dtype):
    module, x = layer("distance").to(dtype), tokens().to(dtype).requires_grad_()
    grads = []
    for run in (module, lambda x: checkpoint(module, x, use_reentrant=False)):
        module.zero_grad()
        out = run(x)
        out.square().sum().backward()
        grads.append([out, x.grad, *(p.grad for p in module.parameters() if p.grad is not None)])
        x.grad = None
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_the_task_trains_the_index():
    """Top-k passes no gradient; the affinity term does."""
    for name, trained in (("flock", True), ("without term", False)):
        module = make(**{**FLOCK, **VARIANTS[name]}, roles=["align", "align", "coh"])
        module(tokens(), causal=True).square().sum().backward()
        grads = [m.weight.grad for m in (module.P, module.P_k)]
        assert all((g is not None and bool(g.any())) == trained for g in grads)


COMPILED = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from nn.test_flock_module import layer, tokens
from support.laws import gap
for name in ("flock", "distance", "grouped rope", "tied"):
    module, x = layer(name).float(), tokens().float().requires_grad_()
    torch._dynamo.reset()
    found = []
    for run in (module, torch.compile(module, backend="aot_eager")):
        out = run(x, causal=True)
        found.append((out, torch.autograd.grad(out.square().sum(), x)[0]))
    assert all(gap(a, b) <= 1e-5 for a, b in zip(*found, strict=True)), name
print("the same")
"""


@pytest.mark.slow
def test_compile():
    """In a process of its own: shapes checked at run time do not go with torch.compile."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, Path(__file__).parents[1]], capture_output=True, text=True
    )
    assert done.stdout == "the same\n", done.stderr[-3000:]


# Cross-attention.


@pytest.mark.parametrize("width", [None, 10])
@pytest.mark.parametrize(
    "options", [{}, {"affinity": "tied"}, {"affinity_bias": 8}, {"kv_heads": 1}], ids=str
)
def test_cross_attention(options, width):
    """Neither window nor globals, no distance: rows one at a time are the rows of the whole."""
    module = make(**{**FLOCK, **options}, **({} if width is None else {"context_dim": width}))
    if module.distance_bias is not None:
        module.distance_bias.data.uniform_(1, 2)
    x = tokens()
    context = torch.randn(B, 13, width or DIM, dtype=torch.double)
    real = torch.arange(13) < torch.tensor([[13], [9]])
    want = module(x, context, mask=real)
    assert torch.allclose(module(x, context, mask=real, backend="dense"), want, atol=1e-10)
    cache = CrossKV()
    with torch.no_grad():
        rows = [module(t, context, mask=real, cache=cache) for t in x.split(1, 1)]
    assert torch.allclose(torch.cat(rows, 1), want, atol=1e-10)
    _, parts = module(x, context, mask=real, return_parts=True)
    assert (parts.weights > 0).sum(-1).unique().tolist() == [4]
    other = torch.where(real[..., None], context, 9.0)
    assert torch.allclose(module(x, other, mask=real), want, atol=1e-10)


# Phases.


def test_a_visible_phase_is_visible_scope():
    module, x = layer("distance"), tokens()
    sparse = module(x, causal=True)
    module.visible_phase = True
    whole = module(x, causal=True)
    assert torch.allclose(decoded(module, x)[0], whole, atol=1e-10)
    affinity = {"affinity": "query-key", "affinity_term": True, "affinity_heads": 1}
    seen = make(**affinity, affinity_bias=8)
    seen.load_state_dict(module.state_dict())
    assert torch.allclose(seen(x, causal=True), whole, atol=1e-10)
    assert not torch.allclose(sparse, whole, atol=1e-3)


def test_a_flock_of_everyone_is_visible_scope():
    module, x = layer("everyone"), tokens()
    want = module(x, causal=True)
    module.visible_phase = True
    assert torch.allclose(module(x, causal=True), want, atol=1e-10)


def test_losses_of_a_layer():
    """The losses know the flock: those of dense, whatever backend attends."""
    found = []
    for backend in ("auto", "dense"):
        module = layer("flock", backend=backend)
        with collect(module) as losses:
            module(tokens(), causal=True)
        found.append(losses.given[0])
    for name in ("align", "sep", "coh"):
        assert torch.allclose(getattr(found[0], name), getattr(found[1], name), atol=1e-12)


def test_parts_name_the_affinity():
    module, x = layer("flock"), tokens()
    flock = module.flock(module.call(x, causal=True))
    _, parts, _ = dense(flock.repeat_kv())
    assert bool(parts.aff.any())
    module = layer("without term")
    assert not module(x, causal=True, return_parts=True)[1].aff.any()
