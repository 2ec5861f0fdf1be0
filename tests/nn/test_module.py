"""AscenderAttention: shapes, options, names, and life inside PyTorch's machinery."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from ascender import AscenderAttention, Cache, Rules, asc_attention
from ascender.core.backends.native import lanes
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.core.neighbours import grid
from ascender.insight import watching
from ascender.kernels.build import kernels
from support.module_cases import DIM, HEADS, VARIANTS, B, N, make, tokens


@pytest.mark.parametrize("name", VARIANTS)
def test_every_backend_gives_the_same_layer(name):
    module, x = make(**VARIANTS[name]), tokens()
    want = module(x, causal=True, backend="dense")
    backends = ["auto", "compact", "decode", "windowed" if "window" in name else "folded"]
    for backend in backends:
        assert torch.allclose(module(x, causal=True, backend=backend), want, atol=1e-10), backend


def test_cross_attention_and_another_width():
    module = make(context_dim=10)
    context = torch.randn(B, 9, 10, dtype=torch.double)
    y, parts = module(tokens(5), context, return_parts=True)
    assert y.shape == (B, 5, DIM)
    assert parts.weights.shape == (B, HEADS, 5, 9)
    mask = torch.ones(B, 9, dtype=torch.bool)
    mask[:, 6:] = False
    changed = context.clone()
    changed[:, 6:] += 1
    args = (tokens(5), context), (tokens(5), changed)
    a, b = (module(*pair, mask=mask) for pair in args)
    assert torch.allclose(a, b, atol=1e-12)


def test_roles_are_frozen():
    module = make(roles=["align", "sep", "none"])
    _, parts = module(tokens(), return_parts=True)
    for head, own in enumerate(("align", "sep", "none")):
        for rule in ("align", "sep", "coh"):
            size = getattr(parts, rule)[:, head].abs().max()
            assert (size > 0) == (rule == own), (head, rule)


def test_without_gates_every_token_has_the_same():
    """γ = ½ and η = 1 in every row; with gates they differ from row to row."""
    for gates, same in ((False, True), (True, False)):
        module = make(gates=gates)
        with watching(module) as layers:
            module(tokens())
        geometry = layers[0].geometry
        for rule, gate in (("align", 0.5), ("sep", 1.0), ("coh", 0.5)):
            assert bool((geometry.gates[rule] == gate).all()) == same, (gates, rule)
    names = dict(make(gates=False).named_parameters())
    assert not {"alpha_align", "alpha_coh", "log_kappa"} & set(names)


def test_shared_numbers_are_equal_numbers():
    """One ω, α, δ, κ, τ_score for all heads is as many of them that are equal; the gradient of the
    one is their sum. The kernel widths go with the geometry."""
    shared, own = make(numbers="shared"), make()
    own.load_state_dict(
        {name: t.expand_as(own.state_dict()[name]) for name, t in shared.state_dict().items()}
    )
    assert torch.allclose(shared(tokens()), own(tokens()), atol=1e-12)
    for module in (shared, own):
        module(tokens()).square().sum().backward()
    numbers = [name for name, p in shared.named_parameters() if p.shape == (1,)]
    assert len(numbers) == 8
    for name in numbers:
        one, each = getattr(shared, name).grad, getattr(own, name).grad
        assert torch.allclose(one, each.sum(), atol=1e-10)
        assert each.unique().numel() > 1


def test_reusing_another_layers_neighbours():
    below, above = make(), make(geometry="shared")
    x = tokens()
    _, lists = below(x, causal=True, return_neighbours=True)
    assert lists.shape == (B, HEADS, N, 3)
    for backend in ("dense", "folded", "decode", "compact"):
        y = above(x, causal=True, neighbours=lists, backend=backend)
        assert torch.allclose(y, above(x, causal=True, neighbours=lists, backend="dense"))
    assert not torch.allclose(y, above(x, causal=True), atol=1e-4)


def test_grid_neighbours_of_an_image():
    module, x = make(), tokens(12)
    y = module(x, neighbours=grid(3, 4))
    assert torch.allclose(y, module(x, neighbours=grid(3, 4), backend="folded"), atol=1e-10)


def test_state_dict_names_are_stable():
    names = set(AscenderAttention(8, 2, qk_norm=True).state_dict())
    rules = {"omega_align", "omega_sep", "omega_coh", "alpha_align", "alpha_coh", "delta"}
    logs = {"log_tau_sep", "log_tau_coh", "log_kappa", "log_tau_score", "log_gain"}
    maps = {f"{w}.weight" for w in ("W_Q", "W_K", "W_V", "W_O", "U", "P")}
    assert names == rules | logs | maps


def test_coordinates_start_a_length_apart():
    """Tokens of unit variance lie about √2 apart."""
    torch.manual_seed(0)
    module = AscenderAttention(256, 4)
    z = module.project(torch.randn(1, 200, 256))["z_q"]
    distance = torch.pdist(z[0, 0]).mean().item()
    assert abs(distance - 2**0.5) < 0.1


def test_positive_numbers_stay_positive():
    module = make()
    for p in (module.log_tau_sep, module.log_kappa, module.log_tau_score):
        p.data.fill_(-30.0)
    rules = module.rules()
    assert min(rules.tau_sep.min(), rules.kappa.min(), rules.tau_score.min()) > 0


def test_dropout_only_while_training():
    module, x = make(dropout=0.5), tokens()
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))
    module.train()
    with pytest.raises(ValueError, match=r"dropout = 0.5.*expected dropout=0, or backend='dense'"):
        module(x, backend="folded")


@pytest.mark.parametrize("backend", ["dense", "compact", "folded"])
def test_gradient_checkpointing(backend):
    module, x = make(), tokens().requires_grad_()

    def loss(y):
        return torch.autograd.grad(y.square().sum(), [x, *module.parameters()])

    want = loss(module(x, causal=True, backend=backend))
    again = checkpoint(lambda t: module(t, causal=True, backend=backend), x, use_reentrant=False)
    for a, b in zip(loss(again), want, strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("backend", ["dense", "compact", "folded", "decode", "auto"])
def test_autocast(backend):
    module = AscenderAttention(DIM, HEADS, k=3)
    x = tokens().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = module(x, causal=True, backend=backend)
        y.float().sum().backward()
    want = module(x, causal=True, backend="dense")
    assert y.dtype == torch.bfloat16
    assert (y - want).abs().max() < 0.05 * want.abs().max() + 0.02
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


def test_torch_func_matches_autograd():
    """grad, and vmap over the batch, as stock attention allows."""
    q, k, v = (torch.randn(4, 2, 9, 5, dtype=torch.double) for _ in range(3))
    z, h = torch.randn(4, 2, 9, 3, dtype=torch.double), torch.randn(4, 2, 9, 3, dtype=torch.double)
    rules = Rules(k=2, omega_align=0.5)

    def one(*args):
        return asc_attention(*(a[None] for a in args), rules=rules, causal=True).square().sum()

    each = torch.func.vmap(torch.func.grad(one))(q, k, v, z, h)
    q.requires_grad_()
    loss = asc_attention(q, k, v, z, h, rules=rules, causal=True).square().sum()
    assert torch.allclose(each, torch.autograd.grad(loss, q)[0])


COMPILE = """
import torch
from ascender import AscenderAttention

torch.manual_seed(0)
module, x = AscenderAttention(24, 3, k=3).double(), torch.randn(2, 23, 24, dtype=torch.double)
whole = torch.compile(module, backend="aot_eager", fullgraph=True)
for causal in (False, True):
    got = whole(x, causal=causal, backend="dense")
    assert torch.allclose(got, module(x, causal=causal, backend="dense"), atol=1e-10)
    (a,), (b,) = (
        torch.autograd.grad(y.square().sum(), [module.U.weight])
        for y in (got, module(x, causal=causal, backend="dense"))
    )
    assert torch.allclose(a, b, atol=1e-10)
some, x = torch.compile(module, backend="aot_eager"), torch.randn(2, 300, 24, dtype=torch.double)
assert torch.allclose(some(x, causal=True), module(x, causal=True), atol=1e-9)
"""


@pytest.mark.slow
def test_dense_compiles_without_a_graph_break_and_auto_compiles():
    """In a process of its own: shapes checked at run time do not go with torch.compile."""
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_zero_is_vanilla():
    module = make(omega=0.0)
    for rule in ("align", "sep", "coh"):
        getattr(module, f"omega_{rule}").data.zero_()
    module.log_tau_score.data.zero_()
    x = tokens()
    made = module.project(x)
    stock = F.scaled_dot_product_attention(made["q"], made["k"], made["v"], is_causal=True)
    want = module.W_O(stock.transpose(1, 2).flatten(2))
    for backend in ("dense", "compact", "folded"):
        assert torch.allclose(module(x, causal=True, backend=backend), want, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 5}, "heads = 5; expected a divisor of dim = 24"),
        ({"kv_heads": 2}, "kv_heads = 2; expected a divisor of heads = 3"),
        ({"geometry": "flat"}, "unknown geometry 'flat'; expected one of per_head, shared"),
        ({"numbers": "one"}, "unknown numbers 'one'; expected one of per_head, shared"),
        ({"roles": ["align"]}, "roles has 1 entries; expected one a head"),
        ({"roles": ["align", "seq", "coh"]}, "unknown role 'seq'; expected one of align"),
        ({"k": 0}, "k = 0; expected at least 1"),
        ({"local_scope": "near"}, "unknown local_scope 'near'; expected one of visible"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        AscenderAttention(DIM, **{"heads": HEADS, **options})


def test_bad_masks_and_caches():
    module, x = make(), tokens()
    with pytest.raises(ValueError, match=r"mask has shape \(2, 7\); expected padding"):
        module(x, mask=torch.ones(2, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected no context"):
        module(x, tokens(4), cache=Cache())
    with pytest.raises(ValueError, match="the cache has window None; expected 4"):
        make(window=4)(x, cache=Cache())
    with pytest.raises(ValueError, match="n_global = 2 without a window"):
        Cache(n_global=2)


@pytest.mark.parametrize(
    ("n", "options", "want"),
    [
        (23, {}, "compact"),
        (256, {}, "folded"),
        (256, {"window": 128}, "compact"),
        (600, {"window": 400}, "windowed"),
        (600, {"mask": torch.ones(600, 600, dtype=torch.bool)}, "dense"),
        (2100, {"key_norm": 1.0}, "folded"),
        (4100, {"key_norm": 1.0}, "folded"),
    ],
)
def test_what_auto_takes(n, options, want):
    """In float64, and where the C kernel serves: windows, and up to a few thousand tokens."""
    q, z = torch.randn(1, 2, n, 4), torch.randn(1, 1, n, 3)
    flock = build_flock(q, q, q, z, z, rules=Rules(k=2), **options)
    native = kernels().library is not None and n < (4100 if lanes() == 16 else 2100)
    assert choose_backend(flock) == ("native" if native else want)
    assert BACKENDS[choose_backend(flock, stats=True)].gives_stats
    q, z = q.double(), z.double()
    assert choose_backend(build_flock(q, q, q, z, z, rules=Rules(k=2), **options)) == want


def test_tau_is_where_the_kernel_widths_start():
    module = AscenderAttention(DIM, HEADS, tau=0.25)
    for name in ("log_tau_sep", "log_tau_coh"):
        assert getattr(module, name).exp().tolist() == pytest.approx([0.25] * HEADS)
    with torch.no_grad():
        module.log_tau_sep.zero_()
    module.reset_parameters()
    assert module.log_tau_sep.exp().tolist() == pytest.approx([0.25] * HEADS)
    assert module.rules().tau_score.tolist() == pytest.approx([1.0] * HEADS)
    with pytest.raises(ValueError, match="tau = 0; expected a number > 0"):
        AscenderAttention(DIM, HEADS, tau=0)
