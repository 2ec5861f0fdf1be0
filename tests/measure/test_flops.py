"""FLOPs: the counter against products done by hand, the formulas against the counter."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ascender import AscenderAttention, Rules, asc_attention
from ascender.bench.candidates import CANDIDATES
from ascender.core.backends import flash_narrow_values, folded
from ascender.core.backends.index_lists import Lists
from ascender.core.backends.native import without_native
from ascender.kernels.build import kernels
from ascender.measure import flops
from ascender.measure.flops import CallOptions, Problem, count
from ascender.measure.timing import FORWARD, TRAINING

needs_native = pytest.mark.skipif(kernels().library is None, reason=kernels().reason)
B, H, N, M, D, K = 2, 3, 11, 13, 7, 5
SMALL = Problem(43, H=3, d=7, d_z=5, d_a=2, k=6, window=17, far=7, flock_window=4)
LARGE = replace(SMALL, n=751)  # top-k in two chunks, six chunks of causal variances, 12 blocks


def qkv(n=N, m=M):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(B, H, length, D, generator=g) for length in (n, m, m)]


def attend(q, k, v, **how):
    return F.scaled_dot_product_attention(q, k, v, **how)


def test_flash_counts_as_the_products_it_does():
    q, k, v = qkv()
    with sdpa_kernel(SDPBackend.MATH):  # written out: two bmm
        written_out = count(lambda: attend(q, k, v))
    assert count(lambda: attend(q, k, v)) == written_out == B * H * N * M * 2 * (D + D)
    with FlopCounterMode(display=False) as torchs_own:  # why there is another
        attend(q, k, v)
    assert torchs_own.get_total_flops() == 0


def test_flash_backward_counts_five_products():
    leaves = [t.requires_grad_() for t in qkv()]
    both = count(lambda: attend(*leaves).sum().backward())
    assert all(t.grad is not None for t in leaves)
    assert both == B * H * N * M * 2 * D * (2 + 5)


@pytest.mark.parametrize(("n", "m"), [(11, 11), (11, 13), (13, 11)])
def test_causal_flash_counts_the_pairs_that_see_each_other(n, m):
    q, k, v = qkv(n, m)
    pairs = sum(j <= i for i in range(n) for j in range(m))
    assert count(lambda: attend(q, k, v, is_causal=True)) == B * H * pairs * 2 * (D + D)


def test_index_lists_count_their_entries():
    index = torch.arange(N * K).view(1, 1, N, K) % M
    lists = Lists(index.expand(B, 1, N, K), H, M)
    x, y, p = torch.ones(B, H, N, D), torch.ones(B, H, M, D), torch.ones(B, H, N, K)
    assert count(lambda: lists.dot(x, y)) == 2 * B * H * N * K * D
    assert count(lambda: lists.bag(p, y)) == 2 * B * H * N * K * D
    leaves = [x.requires_grad_(), y.requires_grad_()]
    step = count(lambda: lists.dot(x, y).sum().backward())
    assert all(t.grad is not None for t in leaves)
    assert step == 3 * 2 * B * H * N * K * D


@pytest.mark.parametrize(
    "run",
    [
        lambda a, b, c: a @ b,
        lambda a, b, c: c.addmm(a, b),
        lambda a, b, c: c.addmm_(a, b),
        lambda a, b, c: c[None].baddbmm(a[None], b[None]),
        lambda a, b, c: c[None].baddbmm_(a[None], b[None]),
        lambda a, b, c: c.addbmm(a[None], b[None]),
        lambda a, b, c: c.addbmm_(a[None], b[None]),
        lambda a, b, c: torch.mm(a, b, out=c),
        lambda a, b, c: torch.einsum("ij,jk->ik", a, b),
        lambda a, b, c: F.linear(a[None], b.T),
        lambda a, b, c: [a @ column for column in b.T],
        lambda a, b, c: [c[:, i].addmv_(a, b[:, i]) for i in range(D)],
        lambda a, b, c: [row @ column for row in a for column in b.T],
    ],
)
def test_a_product_counts_however_it_is_written(run):
    a, b, c = torch.ones(N, M), torch.ones(M, D), torch.zeros(N, D)
    assert count(lambda: run(a, b, c)) == 2 * N * M * D


def test_nothing_is_nothing():
    assert count(lambda: None) == 0
    assert count(lambda: torch.ones(3, 5).exp()) == 0


def native_step(n=23, shared=False, **options):
    """FLOPs of a forward pass and of forward and backward by the C kernel, B = 2, H = 3, d = 7,
    e = 6, d_z = 5, d_a = 4."""
    g = torch.Generator().manual_seed(0)
    spaces = 1 if shared else 3
    heads = ((3, 7), (3, 7), (3, 6), (spaces, 5), (spaces, 4))
    leaves = [torch.randn(2, h, n, w, generator=g).requires_grad_() for h, w in heads]
    rules = options.pop("rules", None) or Rules(k=4)

    def forward():
        return asc_attention(*leaves, rules=rules, backend="native", **options)

    with torch.no_grad():
        alone = count(forward)
    both = count(lambda: torch.autograd.grad(forward().sum(), leaves, allow_unused=True))
    return alone, both


@needs_native
def test_the_native_kernel_counts_as_its_products():
    """23 keys fill two vectors of 16. Causal: the first 16 rows look at 16 keys, the others at
    32."""
    for pairs, causal in ((23 * 32, False), (16 * 16 + 7 * 32, True)):
        h_h, z_z, centre, z_centre = 4, 5, 5, 5
        q_k, u_k, p_v = 7, 7, 6
        forward = 2 * 2 * 3 * pairs * (h_h + z_z + centre + z_centre + q_k + u_k + p_v)
        again, grads_qkv, grads_u = q_k + u_k + z_z + z_centre, 7 + 7 + 6 + 6, 7 + 7
        grads_z = 2 * 5 + 4 * 5  # of z·z; of c·z and c
        backward = 2 * 2 * 3 * pairs * (again + grads_qkv + grads_u + grads_z)
        assert native_step(causal=causal) == (forward, forward + backward)
        shared = 2 * 2 * pairs * (h_h + z_z + centre + z_centre + 3 * (q_k + u_k + p_v))
        assert native_step(causal=causal, shared=True)[0] == shared


@needs_native
def test_rules_that_are_off_have_no_products():
    only = {name: 0.0 for name in ("omega_sep", "omega_coh")}
    one, _ = native_step(rules=Rules(k=4, **only))
    assert one == 2 * 2 * 3 * 23 * 32 * (4 + 7 + 7 + 6)
    none, _ = native_step(rules=Rules(k=4, omega_align=0.0, **only))
    assert none == 2 * 2 * 3 * 23 * 32 * (7 + 6)


@needs_native
def test_a_window_counts_the_keys_in_reach():
    off = {"omega_sep": 0.0, "omega_coh": 0.0}
    one, _ = native_step(100, rules=Rules(k=4, **off), window=10)
    reach = [(0, 26), (0, 42), (16, 58), (32, 74), (48, 90), (64, 100), (80, 100)]
    pairs = sum((16 if i < 6 else 4) * -(-(b - a) // 16) * 16 for i, (a, b) in enumerate(reach))
    assert one == 2 * 2 * 3 * pairs * (4 + 7 + 7 + 6)


@needs_native
def test_a_layer_counts_its_kernel_or_the_torch_operators():
    layer, x = AscenderAttention(12, 3), torch.randn(2, 16, 12)
    with torch.no_grad():
        native = count(lambda: layer(x))
        with without_native():
            torchs_own = count(lambda: layer(x))
        with FlopCounterMode(display=False) as linear:
            layer(x)
    assert native > linear.get_total_flops() > 0, "more than the projections"
    assert torchs_own > linear.get_total_flops()
    assert torchs_own != native
    layer.backend = "compact"
    with torch.no_grad():
        assert count(lambda: layer(x)) == torchs_own


@pytest.mark.parametrize("p", [SMALL, LARGE], ids=lambda p: f"N={p.n}")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", CANDIDATES)
def test_formula_is_what_the_operators_do(name, causal, p, monkeypatch):
    p, candidate = replace(p, causal=causal), CANDIDATES[name]
    if why := candidate.refuses(p, FORWARD):
        pytest.skip(why)
    for work in candidate.works:
        counted = count(candidate.make(p).run(work))
        assert counted == candidate.flops(p, work == TRAINING)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", [name for name in CANDIDATES if name.startswith("folded")])
def test_formula_is_what_long_sequences_do(name, causal, monkeypatch):
    """Head by head; the passes that heads or kernels share are still made once."""
    for module in (folded, flops):
        monkeypatch.setattr(module, "LONG", 0)
    p = replace(SMALL, causal=causal)
    assert count(CANDIDATES[name].make(p).run(FORWARD)) == CANDIDATES[name].flops(p, False)


def test_a_wrong_formula_is_noticed():
    counted = count(CANDIDATES["windowed"].make(SMALL).run(FORWARD))
    window = CallOptions("windowed", windowed=True)
    assert flops.windowed(SMALL, False, window) == counted
    for wrong in ("shared", "local", "reuse"):
        assert flops.windowed(SMALL, False, replace(window, **{wrong: True})) != counted


def test_a_wrong_formula_of_flock_scope_is_noticed():
    v = CallOptions("flock", flock=True)
    counted = count(CANDIDATES["flock"].make(SMALL).run(TRAINING))
    assert flops.flock(SMALL, True, v) == counted
    for other in ({"far": 6}, {"flock_window": 3}, {"d_a": 3}, {"d_z": 4}, {"causal": True}):
        assert flops.flock(replace(SMALL, **other), True, v) != counted


def test_flock_scope_looks_at_few_keys():
    """The work per query beside the index does not grow with N; decoding reads the index only."""
    v, few, many = CallOptions("flock", flock=True), Problem(1024), Problem(16384)
    assert flops.flock(few, False, v) / flops.stock(few, False) < 0.25
    near = [flops.flock(p, False, v) / p.n - 2 * p.n * p.d_a for p in (few, many)]
    assert near[0] == near[1] > 0
    steps = [flops.flock_decode(p, False) - 2 * p.n * p.d_a for p in (few, many)]
    assert steps[0] == steps[1] > 0


def formulas():
    """The table of docs/method.md: call → expression."""
    text = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (\w+) \| `([^`]+)` \|$", text, re.M))


@pytest.mark.parametrize("p", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", [*formulas(), "folded_shared"])
def test_the_table_of_the_method_is_what_runs(name, p, monkeypatch):
    shared = name.endswith("_shared")
    D = p.d + (0 if shared else p.d) + p.d_z + 1
    letters = {
        "N": p.n, "H": p.H, "G": 1 if shared else p.H, "d": p.d, "d_z": p.d_z,
        "d_a": p.d_a, "k": p.k, "D": D,
        "e": p.d if flash_narrow_values.serves(D, p.d, p.n, p.n) else D, "W": p.window_pairs,
    }  # fmt: skip
    if why := CANDIDATES[name].refuses(p, FORWARD):
        pytest.skip(why)
    counted = count(CANDIDATES[name].make(p).run(FORWARD))
    formula = formulas()[name.removesuffix("_shared")]
    assert eval(formula, {}, letters) == counted
    assert eval(formula, {}, {**letters, "d": p.d + 1}) != counted


def test_linear_in_n_where_it_should_be():
    def growth(count, *args):
        return count(Problem(65536), False, *args) / count(Problem(32768), False, *args)

    assert growth(flops.windowed, CallOptions("windowed", windowed=True)) == pytest.approx(
        2, rel=0.01
    )
    assert growth(flops.decode, CallOptions("decode")) == pytest.approx(2, rel=0.01)
    assert growth(flops.folded, CallOptions()) == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"rules": Rules(k=4, lam_align=0.0)}])
@pytest.mark.parametrize("backend", ["dense", "compact", "decode", "native", "folded"])
def test_neighbours_by_scores_are_ranked_by_the_base_pass(backend, options):
    """Where the base scores are written out they cost no second product; the fold pays one."""
    if backend == "native" and kernels().library is None:
        pytest.skip(kernels().reason)
    g = torch.Generator().manual_seed(0)
    leaves = [torch.randn(B, H, 23, w, generator=g) for w in (D, D, D, 5, 4)]
    index = torch.arange(4).expand(B, H, 23, 4)
    how = {"rules": Rules(k=4), **options, "backend": backend}

    def cost(neighbours):
        with torch.no_grad():
            return count(lambda: asc_attention(*leaves, neighbours=neighbours, **how))

    assert cost("scores") - cost(index) == (2 * B * H * 23 * 23 * D if backend == "folded" else 0)
