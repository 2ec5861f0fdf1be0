"""`ascender bench choose`: every backend takes part, and the crossovers are where times meet."""

import math
from dataclasses import asdict, replace

import torch

from ascender.bench import choose, gpu_kernels, tables
from ascender.core.backends import stock_kernels
from ascender.core.choose_backend import BACKENDS
from ascender.measure.flops import Problem
from ascender.measure.timing import FORWARD, TRAINING, TimingPlan

ONCE = TimingPlan(repeats=1, at_least=0.0)


def test_choose():
    rows = choose.run((24, 150), ONCE, memory=False)
    assert {row.candidate for row in rows} == set(BACKENDS)
    for kind in choose.KINDS:
        for work in (FORWARD, TRAINING):
            for n in (24, 150):
                some = [r for r in rows if (r.kind, r.work, r.n) == (kind, work, n)]
                (fastest,) = [r for r in some if r.fastest]
                assert fastest.ratio == 1
                assert sum(r.auto for r in some) == 1
                assert all(r.ratio >= 1 for r in some if r.skipped is None)
    assert choose._too_long("dense", 1025) == "above N = 1024"
    assert choose._too_long("native", 16385) == "above N = 16384"
    assert choose._too_long("folded", 8192) is None


def test_choose_measures_the_memory_of_all_backends():
    p = asdict(Problem(33, causal=True))
    memory = choose.child(p, {}, TRAINING, ("compact", "folded"), torch.get_num_threads())
    assert list(memory) == ["compact", "folded"]
    assert all(MB > 0 for MB in memory.values())


def test_crossovers():
    """native takes 1, 4, 16 ms, folded 4, 4.5, 5 ms: they meet a little after 512."""

    def row(name, n, ms, fastest):
        auto = name == ("native" if n < 1024 else "folded")
        return choose.ChooseRow(name, n, FORWARD, ms, 1.0, None, fastest=fastest, auto=auto)

    rows = [row("native", n, ms, ms < 5) for n, ms in ((256, 1.0), (512, 4.0), (1024, 16.0))]
    rows += [row("folded", n, ms, ms == 5) for n, ms in ((256, 4.0), (512, 4.5), (1024, 5.0))]
    share = math.log(4.5 / 4) / (math.log(4.5 / 4) + math.log(16 / 5))
    at = round(512 * 2**share)
    assert choose.crossover(rows) == (
        f"native, folded from N ≈ {at}",
        "native, folded from N = 1024",
    )
    assert 512 < at < 600
    rows[2] = replace(rows[2], ms=None)
    assert choose.crossover(rows)[0] == "native, folded from N = 1024"
    shown = tables.choose([replace(r, kind="full") for r in rows])
    assert shown["crossover"].texts("en")[0] == [
        "full, forward", "native, folded from N = 1024", "native, folded from N = 1024",
    ]  # fmt: skip


def test_the_kernels_of_a_gpu_are_shown_without_one(monkeypatch):
    monkeypatch.setattr(stock_kernels, "installed", lambda: False)
    taken = {(of, gpu): kernel for of, gpu, kernel, _ in gpu_kernels.choices()}
    assert taken["main pass, no separation", "A100"] == "flash"
    assert taken["the same with QK-norm", "H100"] == "cudnn"
    assert set(taken.values()) == {"flash", "cudnn", "efficient"}
    assert {gpu for _, gpu in taken} == set(gpu_kernels.GPUS)
    notes = [en for en, _ in gpu_kernels.table().notes]
    assert "not run (there is no GPU)" in notes[0]
    assert "cudnn: compute capability 8.0; expected at least 9.0." in notes
    assert 'fa4: not installed; expected: pip install "flash-attn-4".' in notes
