"""The auxiliary losses: the oracle's numbers from every backend that has them, dense's gradients,
and no N×N on the way."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from ascender import Losses, LossWeights, asc_attention
from ascender.core.backends import fold
from support.cases import KINDS, LARGE, H, case, serving
from support.laws import gap, outputs_gap, real, run
from support.oracles import losses_oracle
from support.worked_cases import oracle_of

NAMES = ("align", "sep", "coh")


def fast(kind, options="plain", device="cpu"):
    """The backend besides dense that has losses."""
    return [b for b in serving(kind, options, device=device) if b in ("folded", "windowed")]


def found(x, backend):
    return asc_attention(**x.call(), backend=backend, return_losses=True)


def values(losses):
    return {name: getattr(losses, name).item() for name in NAMES}


def expected(x):
    x = x.on("cpu")
    call = x.call()
    return losses_oracle(oracle_of(x), call.get("z_k", call["z_q"]), valid=real(x).numpy())


def gradients(x, backend, weights=(1.0, 0.7, 0.4)):
    """Each loss, and the gradient of all three by every leaf and number."""
    leaves = {name: t.detach().clone().requires_grad_() for name, t in x.leaves.items()}
    numbers = {name: t.detach().clone().requires_grad_() for name, t in x.numbers.items()}
    _, losses = found(replace(x, leaves=leaves, numbers=numbers), backend)
    losses.total(LossWeights(*weights)).backward()
    grads = {
        name: torch.zeros_like(t) if t.grad is None else t.grad
        for name, t in {**leaves, **numbers}.items()
    }
    return {**{f"L_{name}": getattr(losses, name) for name in NAMES}, **grads}


# The oracle and the definition.


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, "plain") for kind in KINDS]
    + [
        ("full", "local given"),
        ("padded by head", "local"),
        ("causal padded left", "shared k-per-head"),
        ("causal", "bare"),
        ("window globals", "raw local scores"),
        ("window by head", "shared local given"),
        ("cross padded", "local given low-rank"),
        ("decode", "scores k-per-head"),
        ("decode padded", "local"),
        ("tail", "local given"),
        ("any mask", "local matrix grouped"),
    ],
)
def test_every_backend_is_the_oracle(kind, options, device):
    x = case(kind, options, device=device)
    want = expected(x)
    for backend in ("dense", *fast(kind, options, device)):
        out, losses = found(x, backend)
        assert values(losses) == pytest.approx(want, abs=1e-12), backend
        assert outputs_gap(x, out, run(x, backend)) < 1e-13, "asking for losses changes nothing"


def test_separation_everywhere():
    x = case("causal")
    x = replace(x, fixed={**x.fixed, "separation_scope": "all"})
    assert values(found(x, "dense")[1]) == pytest.approx(expected(x), abs=1e-12)


@pytest.mark.parametrize("kind", ["full", "padded right", "window globals", "decode"])
def test_the_oracle_would_notice(kind):
    x = case(kind)
    want = expected(x)
    for name, t in x.leaves.items():
        if name != "v":
            other = values(found(x.but(**{name: t + 1e-3 * t.roll(1, -1)}), "dense")[1])
            assert max(abs(other[rule] - want[rule]) for rule in NAMES) > 1e-7, name
    if kind == "padded right":
        unaware = losses_oracle(oracle_of(x), x.leaves["z"])
        assert unaware != pytest.approx(want), "padded queries would count"


@pytest.mark.parametrize("size", [11, LARGE])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if fast(kind)])
def test_gradients_are_those_of_dense(kind, size, device):
    options = "plain" if size == LARGE else "shared local given k-per-head"
    x = case(kind, options, size, device=device)
    want = gradients(x, "dense")
    for backend in fast(kind, device=device):
        got = gradients(x, backend)
        errors = {name: gap(t, want[name]) for name, t in got.items()}
        assert max(errors.values()) < 1e-11, (backend, errors)
    assert min(want[name].abs().max() for name in ("k", "z", "h", "tau_coh", "delta")) > 1e-6


@pytest.mark.parametrize("kind", ["causal padded left", "window globals", "tail"])
def test_gradcheck(kind):
    """Finite differences of the definition; no neighbour is close to changing."""
    x = case(kind, "shared k-per-head")
    names = [*x.leaves, *x.numbers]
    inputs = [t.clone().requires_grad_() for t in (*x.leaves.values(), *x.numbers.values())]

    def three(*tensors):
        known = dict(zip(names, tensors, strict=True))
        leaves = {name: known[name] for name in x.leaves}
        numbers = {name: known[name] for name in x.numbers}
        losses = found(replace(x, leaves=leaves, numbers=numbers), "dense")[1]
        return losses.align, losses.sep, losses.coh

    assert torch.autograd.gradcheck(three, inputs, fast_mode=True, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["padded by head", "causal padded left", "window globals"])
def test_single_and_half_precision(kind, dtype):
    """Against float64 on the same rounded inputs."""
    x = case(kind, size=LARGE).to(dtype)
    truth = values(found(x.to(torch.float64), "dense")[1])
    for backend in ("dense", *fast(kind)):
        losses = found(x, backend)[1]
        assert losses.coh.dtype == torch.float32
        rel = 1e-5 if dtype == torch.float32 else 0.02
        assert values(losses) == pytest.approx(truth, rel=rel), backend


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
def test_where_separation_removes_nearly_all_mass(kind, monkeypatch):
    """Rows that the fold computes again by the definition bring their losses along."""
    x, g = case(kind, "low-rank", 24), torch.Generator().manual_seed(3)
    cluster = F.one_hot(torch.arange(24) // 4).double()
    draw = torch.cat([9 * cluster, -30 * torch.eye(24)], -1).expand(2, 1, -1, -1)
    look = torch.cat([cluster, torch.eye(24)], -1).expand(2, H, -1, -1)
    z, h = (torch.randn(2, H, 6, w, generator=g).double().repeat_interleave(4, 2) for w in (4, 6))
    z, h = (t + 1e-3 * torch.randn(t.shape, generator=g) for t in (z, h))
    x = x.but(left=look, right=draw, z=z, h=h)
    numbers = {"omega_sep": 40 + 0 * x.numbers["omega_sep"], "kappa": 1 + 0 * x.numbers["kappa"]}
    x = replace(x, numbers={**x.numbers, **numbers})
    again, calls = fold.rows_again, []
    monkeypatch.setattr(fold, "rows_again", lambda *args: calls.append(1) or again(*args))
    want = gradients(x, "dense")
    for backend in fast(kind):
        errors = {name: gap(t, want[name]) for name, t in gradients(x, backend).items()}
        assert max(errors.values()) < 1e-9, (backend, errors)
    assert calls


# Which rows count.


@pytest.mark.parametrize("kind", ["padded right", "causal padded left", "window padded", "tail"])
def test_padding_says_nothing_not_even_nan(kind):
    x = case(kind)
    hidden = ~x.masks["mask"][..., 0, :, None].expand(-1, H, -1, -1)
    for filler in (7.0, torch.nan):
        new = {name: torch.where(hidden, filler, t) for name, t in x.leaves.items() if name != "q"}
        rows = hidden[:, :, x.M - x.N :]
        new["q"] = torch.where(rows, filler, x.leaves["q"])
        for backend in ("dense", *fast(kind)):
            changed = values(found(x.but(**new), backend)[1])
            assert changed == pytest.approx(values(found(x, backend)[1]), abs=1e-12), backend


@pytest.mark.parametrize(("kind", "backend"), [("causal", "folded"), ("window", "windowed")])
def test_a_token_that_is_seen_and_not_finite_is_told(kind, backend):
    x = case(kind)
    z = x.leaves["z"].clone()
    z[1, 1, 4, 0] = torch.nan
    for name in ("dense", backend):
        assert all(v != v for v in values(found(x.but(z=z), name)[1]).values())


@pytest.mark.parametrize("backend", ["dense", "folded"])
def test_a_rule_that_is_off_has_no_loss(backend):
    x = case("causal")
    all_on = values(found(x, backend)[1])
    assert min(all_on.values()) > 0
    for rule in NAMES:
        off = values(found(replace(x, fixed={**x.fixed, f"lam_{rule}": 0.0}), backend)[1])
        assert [name for name in NAMES if off[name] == 0] == [rule]
    x = replace(x, fixed={**x.fixed, **{f"lam_{rule}": 0.0 for rule in NAMES}})
    assert values(found(x, backend)[1]) == dict.fromkeys(NAMES, 0.0)


@pytest.mark.parametrize("how", ["one token", "equal", "zero", "large", "k beyond"])
def test_finite(how):
    x = case("causal", "local", 1 if how == "one token" else 11)
    if how in ("equal", "zero", "large"):
        change = {"equal": lambda t: t[:, :, :1].expand_as(t), "zero": torch.zeros_like}
        change = change.get(how, lambda t: 1e4 * t)
        x = x.but(**{name: change(t) for name, t in x.leaves.items()})
    if how == "k beyond":
        x = replace(x, fixed={**x.fixed, "k": 50})
    for scope in ("visible", "neighbours"):
        y = replace(x, fixed={**x.fixed, "local_scope": scope})
        for backend in ("dense", "folded"):
            for name, t in gradients(y, backend).items():
                assert bool(torch.isfinite(t).all()), (backend, name)


def test_one_rule_keeps_to_itself():
    """Duplicates raise L_sep; keys that all point one way have no L_align; points have no L_coh."""
    x = case("full")
    one = {name: t[:, :, :1].expand_as(t) for name, t in x.leaves.items()}
    assert found(x.but(z=one["z"], h=one["h"]), "folded")[1].sep > found(x, "folded")[1].sep
    assert found(x.but(k=one["k"]), "folded")[1].align.abs() < 1e-12
    assert found(x.but(z=one["z"]), "folded")[1].coh.abs() < 1e-12


def test_losses_do_not_know_dropout():
    x = case("causal")
    torch.manual_seed(0)
    out, losses = asc_attention(**x.call(), dropout=0.5, return_losses=True)
    assert values(losses) == pytest.approx(values(found(x, "dense")[1]))
    assert gap(out, run(x, "dense")) > 0.1


def test_parts_and_losses():
    x = case("causal")
    out, parts, losses = asc_attention(**x.call(), return_parts=True, return_losses=True)
    assert values(losses) == values(found(x, "dense")[1])
    assert gap(parts.weights @ x.leaves["v"], out) < 1e-12


@pytest.mark.parametrize("backend", ["compact", "decode", "auto"])
@pytest.mark.parametrize("kind", ["causal", "window", "decode padded"])
def test_short_backends_give_what_the_definition_gives(backend, kind):
    want, got = found(case(kind), "dense"), found(case(kind), backend)
    assert values(got[1]) == values(want[1])
    assert gap(got[0], want[0]) < 1e-12


def test_losses_are_a_value():
    one = torch.ones(())
    assert Losses(one, 2 * one, 3 * one).total(LossWeights(1, 10, 100)) == 321


# Size.


class Largest(TorchDispatchMode):
    """Watches for the largest tensor that any operator returns."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for t in result if isinstance(result, tuple | list) else [result]:
            if isinstance(t, torch.Tensor):  # a sparse one by its entries, an expanded by its own
                sparse = t.layout == torch.sparse_csr
                own = t._nnz() if sparse else t.untyped_storage().nbytes() // t.element_size()
                self.numbers = max(self.numbers, own)
        return result


def largest(n, backend, **masks):
    """Forward and backward with all three losses at n tokens; neighbours are given, so that
    what is watched is the attention and not the search."""
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 8, generator=g).requires_grad_() for _ in range(3))
    z, h = (torch.randn(1, 2, n, 5, generator=g).requires_grad_() for _ in range(2))
    near = torch.randint(0, n, (1, 2, n, 4), generator=g)
    call = {**case("full").call(), "q": q, "k": k, "v": v, "z_q": z, "h_q": h, **masks}
    rules = replace(call["rules"], **{f: 0.3 for f in ("omega_align", "omega_sep", "omega_coh")})
    rules = replace(rules, **{f: 1.0 for f in vars(rules) if f[:3] in ("alp", "tau", "del", "kap")})
    call |= {"rules": replace(rules, k=4), "neighbours": near}
    with Largest() as watch:
        out, losses = asc_attention(**call, backend=backend, return_losses=True)
        (out.sum() + losses.total(LossWeights(1, 1, 1))).backward()
    return watch.numbers


@pytest.mark.parametrize(
    ("backend", "masks"),
    [("folded", {}), ("folded", {"causal": True}), ("windowed", {"window": 8, "n_global": 2})],
)
def test_no_matrix_of_scores(backend, masks):
    small, big = largest(512, backend, **masks), largest(1024, backend, **masks)
    assert big < 0.2 * 2 * 1024 * 1024, "H·N·N"
    assert big <= 2.1 * small, "linear in N"


def test_the_watch_sees_a_matrix():
    assert largest(256, "dense") >= 2 * 256 * 256
    assert largest(256, "dense") > 3.5 * largest(128, "dense")
