"""Context parallelism: two processes with half of the tokens each compute what one does."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ascender.core.losses import collect
from ascender.measure import scaling
from ascender.nn.baselines import attention
from ascender.nn.context_parallel import context_parallel, own_block
from support import context_blocks as blocks

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed"),
    pytest.mark.usefixtures("unchecked_module"),
]


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """What each of two processes computed, by case."""
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(blocks.run, (str(folder), 2), 2)
    return [torch.load(folder / str(rank)) for rank in range(2)]


def bound(name):
    return 1e-5 if name == "float32" else 1e-10


def largest(a, b):
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize("name", blocks.CASES)
def test_two_processes_compute_what_one_does(halves, name):
    """Logits, the losses of some steps, and the gradients of every parameter."""
    one, two = blocks.train(name), [half[name] for half in halves]
    assert largest(torch.cat([half["logits"] for half in two], 1), one["logits"]) < bound(name)
    for half in two:
        assert len(half["losses"]) == blocks.STEPS.get(name, 1)
        assert half["losses"] == pytest.approx(one["losses"], abs=bound(name))
        for got, want in zip(half["grads"], one["grads"], strict=True):
            assert largest(got, torch.zeros_like(got) if want is None else want) < bound(name)


@pytest.mark.slow
def test_a_language_model(tmp_path):
    """AscenderForCausalLM, in blocks: logits and the gradient of the embedding."""
    pytest.importorskip("transformers")
    mp.spawn(blocks.run_language_model, (str(tmp_path), 2), 2)
    halves = [torch.load(tmp_path / str(rank)) for rank in range(2)]
    logits, grad = blocks.language_model()
    assert largest(torch.cat([half[0] for half in halves], 1), logits) < 1e-10
    assert all(largest(half[1], grad) < 1e-10 for half in halves)


def test_processes_need_equal_blocks(halves):
    for half in halves:
        assert "blocks (batch, tokens) = [(1, 8), (1, 9)]; expected the same" in half["unequal"]


def test_a_block_alone_computes_something_else():
    """1e-10 is no slack: without the first half, the second is another text."""
    net, (inputs, _) = blocks.model({}), blocks.batch(0)
    half = blocks.N // 2
    with torch.no_grad():
        assert largest(net(inputs)[:, :half], net(inputs[:, :half])) < 1e-10
        assert largest(net(inputs)[:, half:], net(inputs[:, half:])) > 1e-2


def shapes(name, layer):
    """The layer as the formulas have it."""
    model = scaling.ModelShape(
        name, 1, layer.dim, layer.heads, layer.kv_heads, layer.head_dim, 0, 0, tied=True
    )
    flock = scaling.FlockShape(
        far=3, window=layer.flock_window, n_global=layer.flock_globals, d_a=layer.d_a,
        affinity_heads=layer.affinity_heads, rules=layer.lam_coh == 1, d_z=layer.d_z,
        spaces=layer.U.out_features // layer.d_z, rotary=layer.position.name == "rope",
    )  # fmt: skip
    return model, flock


def keys_asked_for(layer, x):
    """How many keys of the first half the flocks of the second hold, from the whole sequence."""
    flock = layer.flock(layer.call(x, causal=True))
    members = flock.scope.lists(flock.far)[:, :, blocks.N // 2 :].unique()
    return int(((members >= 0) & (members < blocks.N // 2)).sum())


@pytest.mark.parametrize("name", blocks.CASES)
def test_bytes_are_those_of_the_formula(halves, name):
    """Rows are those that some sequence of the batch holds, each of all sequences."""
    net, B = blocks.model(blocks.CASES[name]), blocks.B
    layer, every = net[1].attention, scaling.remote_rows(blocks.N, 2)
    rows = every
    with torch.no_grad():
        if layer.flock_only:
            rows = keys_asked_for(layer, net[1].norms[0](net[0](blocks.batch(0)[0])))
    model, flock = shapes(name, layer)
    want = scaling.exchanged(model, flock, blocks.N, 2, rows)
    size = next(net.parameters()).element_size()
    requests = 8 * want["requests"] if layer.flock_only else 0
    assert halves[0][name]["traffic"] == [
        size * B * want["index"],
        requests,
        size * B * want["rows"],
    ]
    assert rows == every or name not in ("everyone", "visible")
    dense = scaling.exchanged(model, None, blocks.N, 2)["rows"]
    assert (want["rows"] == dense) == (rows == every and not flock.rules)


# Alone, without another process.


@pytest.mark.usefixtures("group")
def test_one_process_exchanges_nothing():
    net, (inputs, _) = blocks.model({}), blocks.batch(0)
    want = net(inputs)
    context_parallel(net)
    assert largest(net(own_block(inputs)), want) < 1e-12
    assert blocks.traffic_of(net) == [0, 0, 0]


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"scope": "visible", "window": None, "n_global": 0, "far": 32},
            "scope = 'visible'.*expected 'flock'",
        ),
        ({"neighbours": "scores"}, "neighbours = 'scores'.*expected 'semantic'"),
        ({"position": "alibi"}, "position = 'alibi'.*expected rope"),
        ({"normalizer": "ssmax"}, "normalizer = 'ssmax'.*expected softmax"),
    ],
)
def test_layers_that_cannot(options, message):
    net = blocks.model(options)
    with pytest.raises(ValueError, match=message):
        context_parallel(net)
    assert type(net[1].attention).__name__ == "AscenderAttention", "nothing has changed"


@pytest.mark.usefixtures("group")
def test_a_model_without_such_layers():
    with pytest.raises(ValueError, match="no AscenderAttention"):
        context_parallel(attention("vanilla", 24, 3))


@pytest.mark.usefixtures("group")
def test_calls_that_cannot():
    net = context_parallel(blocks.model({"dropout": 0.1}).eval())
    layer, x = net[1].attention, torch.randn(1, 9, blocks.DIM, dtype=torch.double)
    padding = torch.ones(1, 9, dtype=torch.bool)
    for inputs, message in (
        ({}, "causal = False.*expected True"),
        ({"causal": True, "mask": padding}, "mask = Tensor.*expected None"),
        ({"causal": True, "other": torch.zeros(9, 9)}, "other = Tensor"),
        ({"causal": True, "neighbours": torch.zeros(9, 1).long()}, "neighbours = Tensor"),
        ({"causal": True, "cache": layer.new_cache()}, "cache = Cache"),
        ({"causal": True, "return_parts": True}, "return_parts"),
        ({"causal": True, "return_neighbours": True}, "return_neighbours"),
    ):
        with pytest.raises(ValueError, match=message):
            layer(x, **inputs)
    with pytest.raises(ValueError, match="context = Tensor in context parallelism; expected None"):
        layer(x, x, causal=True)
    with pytest.raises(ValueError, match="not finite"):
        layer(x.index_fill(1, torch.tensor([3]), torch.nan), causal=True)
    with pytest.raises(ValueError, match=r"auxiliary losses.*expected no collect"), collect(net):
        layer(x, causal=True)
    with pytest.raises(ValueError, match=r"dropout = 0\.1"):
        layer.train()(x, causal=True)


def test_blocks_are_equal(monkeypatch):
    monkeypatch.setattr(dist, "get_rank", lambda group: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 3)
    assert own_block(torch.arange(12).view(1, 12)).tolist() == [[4, 5, 6, 7]]
    with pytest.raises(ValueError, match="11 tokens; expected a multiple of 3"):
        own_block(torch.arange(11).view(1, 11))
