"""The benchmarks run end to end on a few tokens; what they count and conclude is checked by hand.
No time is asserted anywhere."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from ascender import bench
from ascender.bench import goals, imports, layer, model, studies
from ascender.bench.candidates import CANDIDATES, ours
from ascender.core.backends import flock as flock_backend
from ascender.core.backends.native import unavailable
from ascender.core.choose_backend import BACKENDS
from ascender.measure.flops import CallOptions, Problem, count
from ascender.measure.timing import FORWARD, TRAINING, Row, TimingPlan
from ascender.nn import one_token
from ascender.nn.module import AscenderAttention

ONCE = TimingPlan(repeats=1, at_least=0.0)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_bench_is_not_imported_by_the_package():
    code = "import ascender, sys; print([m for m in sys.modules if m.startswith('ascender.bench')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def few(monkeypatch, turns):
    """The study "attention" of two candidates; the baseline's turns take these seconds."""
    names = ("stock", "folded")
    study = studies.Study({name: CANDIDATES[name] for name in names}, (9,), (FORWARD,))
    times = iter(turns)
    monkeypatch.setitem(studies.STUDIES, "attention", replace(
        study, clock=lambda call, now: 1.0 if "ours" in call.__qualname__ else next(times)
    ))  # fmt: skip


@pytest.mark.parametrize("again", [[1, 1, 1], [0.5, 0.7, 0.6]])
def test_what_was_disturbed_is_timed_again(monkeypatch, again):
    few(monkeypatch, [1, 1, 9, *again])
    result = bench.run("attention", lengths=(9,), memory=False, repeats=1)
    stock, _ = result.rows
    assert (stock.ms, stock.disturbed) == (1e3 * min(again), None)
    assert result.record()["rows"][0]["candidate"] == "stock"


def test_what_stays_disturbed_is_not_stored(monkeypatch):
    few(monkeypatch, [1, 129, 1] * studies.ATTEMPTS)
    result = bench.run("attention", lengths=(9,), memory=False, repeats=1)
    assert [row.disturbed is not None for row in result.rows] == [True, True]
    message = (
        "stock, forward, N = 9: a turn took 129 s, more than twice the median of 1 s; the run is "
        "not stored. Repeat it while nothing else runs on this machine: ascender bench attention "
        "--lengths 9 --json"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        result.record()


def test_both_clocks(monkeypatch):
    asked = []
    monkeypatch.setattr(studies, "run", lambda *args, **more: asked.append(
        (more["clock"], torch.get_num_threads())) or [])  # fmt: skip
    monkeypatch.setattr("ascender.bench.runner.THREADS", 2)
    for options in ({}, {"clock": "wall"}, {"clock": "wall", "threads": 1}):
        assert bench.run("layer", **options).record()["clock"] == options.get("clock", "cpu")
    assert asked == [("cpu", 1), ("wall", 2), ("wall", 1)]


@pytest.mark.parametrize("causal", [False, True])
def test_attention_rows(causal):
    timed = [(n, work) for work in (FORWARD, TRAINING) for n in (19, 150)]
    rows = studies.run("attention", timed, ONCE, causal=causal)
    assert {(r.n, r.work) for r in rows} == {(n, w) for n in (19, 150) for w in (FORWARD, TRAINING)}
    for row in rows:
        if row.candidate.startswith("fused"):
            assert row.skipped == "needs a GPU with Triton"
            continue
        if row.candidate.startswith("native") and unavailable():
            assert row.skipped == unavailable()
            continue
        assert row.skipped is None
        assert row.ms > 0
        assert row.ratio > 0
        assert row.flop_ratio > 0
        assert row.memory_mb is None  # nobody asked for it
    stock = [r for r in rows if r.candidate == r.baseline]
    assert all(r.ratio == r.flop_ratio == 1 for r in stock)
    assert {r.candidate for r in rows if r.work == FORWARD} == set(CANDIDATES)
    assert not any(r.candidate.startswith("decode") for r in rows if r.work == TRAINING)


def test_what_is_too_large_is_skipped_and_says_why():
    dense, bias = CANDIDATES["dense"].refuses, CANDIDATES["bias"].refuses
    assert dense(Problem(2048), FORWARD) is None
    assert "2048" in dense(Problem(2049), FORWARD)
    assert bias(Problem(4096), TRAINING) is None
    assert bias(Problem(16384), FORWARD) == "needs 4 GB"
    native = CANDIDATES["native"].refuses
    assert native(Problem(4096), FORWARD) == (unavailable() or None)
    assert native(Problem(16385), FORWARD) == (unavailable() or "above N = 16384")


def test_the_variants_compute_the_same_attention():
    """Shared, reused and windowed candidates differ in cost, not in what they are."""
    p = Problem(70, k=5)
    for v in (
        CallOptions(),
        CallOptions(shared=True),
        CallOptions(shared=True, reuse=True, local=True),
    ):
        backends = ("folded", "dense") if unavailable() else ("folded", "dense", "native")
        fast, slow, *native = (ours(p, replace(v, backend=b)).call() for b in backends)
        for out in (fast, *native):
            torch.testing.assert_close(out, slow, atol=1e-4, rtol=1e-4)
    reused, searched = (ours(p, CallOptions(shared=True, reuse=r)).call() for r in (True, False))
    torch.testing.assert_close(reused, searched)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_flock_is_flock_scope(shared, causal):
    """Of the definition; a token decoded from the cache has the last row of causal attention."""
    p = Problem(90, k=5, far=9, flock_window=3, causal=causal)
    v = CallOptions("flock", flock=True, shared=shared)
    fast, slow = (ours(p, replace(v, backend=b)).call() for b in ("flock", "dense"))
    torch.testing.assert_close(fast, slow, atol=1e-4, rtol=1e-4)
    more = ours(replace(p, far=10), v).call()
    assert not torch.allclose(more, fast, atol=1e-3), "one far key more"
    if causal and not shared:
        one = CANDIDATES["flock_decode"].make(p).run(FORWARD)()
        torch.testing.assert_close(one, slow[:, :, -1:], atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "")
@pytest.mark.parametrize("name", ["flock", "flock_shared", "flock_decode"])
def test_flock_is_timed_on_the_kernel_and_counted_on_torch_operators(name, monkeypatch):
    calls = []
    for kernel in ("_compiled", "_token"):
        run = getattr(flock_backend, kernel)
        noted = lambda *a, run=run: calls.append(name) or run(*a)  # noqa: E731
        monkeypatch.setattr(flock_backend, kernel, noted)
    timed = CANDIDATES[name].make(Problem(40)).run(FORWARD)
    timed()
    assert calls == [name]
    assert count(timed) > 0
    assert calls == [name]


def test_memory_is_measured_of_what_is_asked_for_and_not_skipped(monkeypatch):
    three = {name: CANDIDATES[name] for name in ("stock", "dense", "folded")}
    monkeypatch.setitem(studies.STUDIES, "attention", studies.Study(three, (9,)))
    monkeypatch.setitem(three, "dense", replace(three["dense"], refuses=lambda p, work: "no"))
    weighed = []

    def peak(study, who, p, work, threads, on):
        weighed.append((who, p.n))
        return {"call": float(len(weighed)), "process": 8.0}

    monkeypatch.setattr(studies, "peak_memory", peak)
    rows = studies.run("attention", [(23, FORWARD)], ONCE, memory=("stock", "dense", "folded"))
    assert weighed == [("stock", 23), ("folded", 23)]
    memory = {r.candidate: (r.memory_mb, r.memory_ratio, r.process_ratio) for r in rows}
    assert memory["folded"] == (2.0, 2.0, 1.0)
    assert memory["dense"] == (None, None, None)


@pytest.mark.parametrize(
    ("study", "candidate", "work"),
    [("attention", "stock", FORWARD), ("layer", "per_head_torch", TRAINING)],
)
def test_memory_is_measured_in_a_process_of_its_own(study, candidate, work):
    memory = studies.peak_memory(study, candidate, Problem(64), work, threads=1)
    assert 0 < memory["call"] < memory["process"]


def test_the_memory_of_a_model_has_its_weights(monkeypatch):
    monkeypatch.setattr(model, "SIZE", "tiny")
    job = model.MODELS["model_vanilla"].make(Problem(7))
    assert job.nbytes() == sum(4 * p.numel() for p in job.make().parameters()) > 1e5


def test_without_native_kernels_is_without_native_kernels(monkeypatch):
    """The candidates that say so run the torch operators, and only while they run."""
    monkeypatch.setattr(layer, "BATCH", 2)
    used = []
    backends = {name: type(backend) for name, backend in BACKENDS.items()}
    for name, kind in backends.items():
        run = kind.run
        monkeypatch.setattr(
            kind, "run", lambda *a, name=name, run=run, **k: used.append(name) or run(*a, **k)
        )
    for name in ("per_head_torch", "shared_torch"):
        layer.LAYERS[name].make(Problem(9)).run(TRAINING)()
    assert used == ["compact", "compact"]
    layer.LAYERS["per_head"].make(Problem(9)).run(TRAINING)()
    assert used[2:] == ["compact" if unavailable() else "native"]


def test_some_candidates_are_timed_beside_their_baselines():
    timed = [(19, FORWARD), (19, TRAINING)]
    rows = studies.run("attention", timed, ONCE, only=("flock_decode", "dense"))
    assert [(row.candidate, row.work) for row in rows] == [
        ("stock", FORWARD), ("dense", FORWARD), ("decode_stock", FORWARD),
        ("flock_decode", FORWARD), ("stock", TRAINING), ("dense", TRAINING),
    ]  # fmt: skip
    assert all(row.ratio > 0 for row in rows)
    only_decoded = bench.run("attention", lengths=(19,), repeats=1, memory=False, only=["decode"])
    assert [row.candidate for row in only_decoded.rows] == ["decode_stock", "decode"]


def test_memory_says_what_failed(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="Traceback …\nKilled: 9\n")
    monkeypatch.setattr("ascender.measure.memory.subprocess.run", lambda *args, **kinds: failed)
    with pytest.raises(RuntimeError, match="memory of folded at N = 64: Killed: 9"):
        studies.peak_memory("attention", "folded", Problem(64), FORWARD, threads=1)


def _row(candidate, n, work, ratio):
    return Row(candidate, n, work, 1.0, ratio, None)


def test_goals_of_the_rows_that_are_there():
    rows = [
        _row("folded", 4096, FORWARD, 2.9),
        _row("folded_shared", 4096, FORWARD, 2.3),
        _row("folded", 1024, FORWARD, 1.0),  # no goal there
        _row("decode", 4096, FORWARD, None),  # skipped
    ]
    found = {g["goal"]: (g["limit"], g["measured"], g["reached"]) for g in goals.reached(rows)}
    assert found == {
        "folded forward, N = 4096, per-head geometry": (3.0, 2.9, True),
        "… shared geometry, QK-norm": (1.5, 2.3, False),
    }


def test_a_goal_of_memory_looks_at_memory():
    row = Row("folded", 16384, FORWARD, 1.0, 99.0, None, "stock", 1, 1)
    assert goals.reached([row]) == []
    (found,) = goals.reached([replace(row, memory_ratio=1.5)])
    assert (found["measured"], found["reached"]) == (1.5, True)


def test_a_goal_of_flops_is_judged_also_where_times_are_disturbed():
    row = Row("flock", 1024, FORWARD, 1.0, 0.5, None, flop_ratio=0.2, disturbed="by others")
    ((name, measured),) = ((g["goal"], g["measured"]) for g in goals.reached([row]))
    assert (name, measured) == ("flock FLOPs, forward, N = 1024", 0.2)
    assert len(goals.reached([replace(row, disturbed=None)])) == 2


def test_goals_name_candidates_that_exist():
    for goal in goals.GOALS.values():
        assert any(goal.candidate in known for known in (CANDIDATES, layer.LAYERS, model.MODELS))


def test_a_goal_of_speed_is_reached_from_below():
    def found(speed):
        rows = [Row("model_per_head", 128, TRAINING, 1.0, 1 / speed, None, tokens_s=9, speed=speed)]
        ((name, reached),) = ((g["goal"], g["reached"]) for g in goals.reached(rows))
        assert name == "model, training, N = 128, per head"
        return reached

    assert found(0.71)
    assert not found(0.69)


def test_layers(monkeypatch):
    monkeypatch.setattr(layer, "BATCH", 3)
    rows = studies.run("layer", [(7, TRAINING)], ONCE)
    assert [row.candidate for row in rows] == list(layer.LAYERS)
    assert all(row.ratio > 0 for row in rows)


def test_layers_have_the_same_projections():
    vanilla = layer.VanillaLayer(layer.DIM, layer.HEADS)
    ours_ = dict(AscenderAttention(layer.DIM, layer.HEADS, geometry="shared").named_parameters())
    assert all(ours_[name].shape == p.shape for name, p in vanilla.named_parameters())
    inputs = layer.LAYERS["shared"].make(Problem(7)).inputs
    assert len(inputs) == 1 + len(ours_)  # x, and every parameter


def test_models(monkeypatch):
    monkeypatch.setattr(model, "TOKENS", 22)
    monkeypatch.setattr(model, "NEW", 3)
    monkeypatch.setattr(model, "VOCABULARY", 13)
    monkeypatch.setattr(model, "SIZE", "tiny")
    rows = studies.run("model", [(11, work) for work in model.JOBS], ONCE)
    assert [(r.work, r.candidate) for r in rows] == [
        (w, m) for w in model.JOBS for m in model.MODELS
    ]
    for row in rows:
        tokens = 22 if row.work == TRAINING else 3
        assert row.tokens_s == pytest.approx(1e3 * tokens / row.ms)
        assert row.speed == pytest.approx(1 / row.ratio)
        assert row.speed == 1 or row.candidate != row.baseline


@pytest.mark.parametrize("name", ["model_flock", "model_flock_norm"])
def test_models_of_flock_scope_attend_to_their_flocks(name, monkeypatch):
    """Every layer, in training and in decoding."""
    monkeypatch.setattr(model, "SIZE", "tiny")
    made = model.MODELS[name].make(Problem(7)).make()
    layers = [m for m in made.modules() if isinstance(m, AscenderAttention)]
    assert layers
    for attention in layers:
        assert attention.flock_only
        assert (attention.far, attention.flock_window, attention.d_z) == (32, 16, 15)
        assert attention.qk_norm == name.endswith("norm")
    ran = []
    run = BACKENDS["flock"].run
    monkeypatch.setattr(
        type(BACKENDS["flock"]), "run", lambda self, *a, **k: ran.append(1) or run(*a, **k)
    )
    in_flock = one_token._in_flock  # a decoded token, where there are C kernels
    monkeypatch.setattr(one_token, "_in_flock", lambda *a: ran.append(1) or in_flock(*a))
    monkeypatch.setattr(model, "TOKENS", 22)
    monkeypatch.setattr(model, "NEW", 3)
    for job, calls in ((model.training, 1), (model.decoding, 3)):
        turn = job(made, 11)
        ran.clear()
        turn()
        assert len(ran) == calls * len(layers)


def test_models_have_the_same_sizes(monkeypatch):
    """But for the few parameters of the rules: what differs in speed is the attention."""

    monkeypatch.setattr(model, "SIZE", "tiny")

    def sizes(name):
        job = model.MODELS[name].make(Problem(7))
        return sorted(tuple(p.shape) for p in job.make().parameters())

    vanilla = sizes("model_vanilla")
    assert sizes("model_llama") == vanilla
    for name in set(model.MODELS) - {"model_llama"}:
        left = sizes(name)
        for shape in vanilla:
            left.remove(shape)
        assert bool(left) == ("vanilla" not in name)


def test_what_is_generated_does_not_depend_on_the_way(monkeypatch):
    """The loop over a cache and generate() time the same tokens."""
    monkeypatch.setattr(model, "VOCABULARY", 13)
    monkeypatch.setattr(model, "SIZE", "tiny")
    made = model.MODELS["model_shared_norm"].make(Problem(11)).make()
    seen = []
    made.register_forward_hook(
        lambda module, args, kinds, out: seen.append(int(out.logits[0, -1].argmax())),
        with_kwargs=True,
    )
    runs = []
    for job in (model.decoding, model.generating):
        seen.clear()
        assert job(made, 11)() > 0
        runs.append(seen[: model.NEW + 1])
    assert runs[0] == runs[1]
    assert len(runs[0]) == model.NEW + 1


def test_imports(monkeypatch):
    ran = []
    monkeypatch.setattr(imports, "_child", lambda statement: lambda: ran.append(statement))
    found = imports.run(repeats=3)
    assert ran == [imports.TORCH, imports.ASCENDER] * 4  # once to warm up, then in turns
    assert found["difference_s"] == found["import_ascender_s"] - found["import_torch_s"]


def test_an_import_that_fails_is_not_timed():
    with pytest.raises(subprocess.CalledProcessError):
        imports._child("import no_such_module")()


def test_a_benchmark_by_name():
    result = bench.run("choose", lengths=(24,), repeats=1, memory=False)
    assert {row.kind for row in result.rows} == {"full", "causal", "window"}
    record = result.record("ascender bench choose")
    assert (record["study"], len(record["rows"])) == ("choose", len(result.rows))
    for options, expected in (
        ({"study": "chose"}, "unknown benchmark 'chose'"),
        ({"study": "model", "work": ["reading"]}, "unknown work 'reading'"),
        ({"study": "model", "clock": "cup"}, r"unknown clock 'cup' \(did you mean 'cpu'\?\)"),
        ({"study": "model", "quick": True, "lengths": (5,)}, "expected one of the two"),
        ({"study": "model", "only": ["model_floc"]}, "did you mean 'model_flock'"),
        ({"study": "choose", "only": ["dense"]}, "unknown benchmark with candidates 'choose'"),
    ):
        with pytest.raises(ValueError, match=expected):
            bench.run(**options)
