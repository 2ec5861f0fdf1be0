"""Engines: local workers, Ray and Slurm do what one trial does, killed or not."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from ascender.lab import Store, suite
from ascender.lab.engine import Local, Ray, Slurm
from ascender.lab.progress import DONE, left, states
from ascender.lab.trial import trial
from ascender.train import Run
from ascender.train.folder import plain
from support.tiny_suite import TINY, nothing


def rows(made, store):
    """What a table is made of, without times."""
    return [(r["key"], r["test"], [p["value"] for p in r["curve"]]) for r in store.records(made)]


@pytest.mark.slow
def test_killed_workers_and_labs_change_nothing(tmp_path):
    """kill −9 of a worker, then of the lab itself, then two labs at once: the same rows as those
    of an undisturbed run."""
    path = tmp_path / "tiny.py"
    path.write_text(TINY.replace("STEPS", "400").replace("MORE", "{}"))
    made, store = suite(str(path)), Store(tmp_path / "lab")
    command = [sys.executable, "-m", "ascender.cli", "lab", "run", path, "--out", store.folder]

    def workers(parent):
        found = subprocess.run(
            ["pgrep", "-P", str(parent.pid)], capture_output=True, text=True
        ).stdout.split()
        return [int(pid) for pid in found]

    def wait(until):
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and not until():
            time.sleep(0.05)
        assert until()

    with (tmp_path / "log").open("w") as log:
        lab = subprocess.Popen(command, stderr=log, stdout=log)
        wait(lambda: any(store.step(r.key)[0] > 20 for r in made.runs))
        os.kill(workers(lab)[0], signal.SIGKILL)
        wait(lambda: any(store.failures(r.key) for r in made.runs))
        left_over = workers(lab)
        lab.kill()
        lab.wait()
        for pid in left_over:  # as a machine that goes down takes all
            os.kill(pid, signal.SIGKILL)
        assert not all(store.done(r.key) for r in made.runs)
        both = [subprocess.Popen(command, stderr=log, stdout=log) for _ in range(2)]
        assert [p.wait(timeout=400) for p in both] == [0, 0]
    assert all(store.done(r.key) for r in made.runs)
    calm = Store(tmp_path / "calm")
    calm.open(made)
    Local(2).go(calm, made.runs, None, nothing)
    assert len(rows(made, store)) == 4
    assert rows(made, store) == rows(made, calm)


@pytest.mark.slow
def test_local_workers_do_what_a_trial_does(tiny, tmp_path):
    made, store, calm = suite(str(tiny)), Store(tmp_path / "lab"), Store(tmp_path / "calm")
    store.open(made)
    ticks = []
    Local(2).go(store, store.open_trials(made), None, lambda: ticks.append(1))
    assert ticks
    assert [s.mark for s in states(made, store)] == [DONE] * 4
    for run in made.runs:
        trial(str(calm.folder), plain(run))
    assert rows(made, store) == rows(made, calm)
    assert left(states(made, store), 2) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ray", "slurm"])
def test_other_engines_do_what_a_trial_does(name, tiny, tmp_path):
    """A real Ray of two workers; submitit's jobs as processes here. What crashes is tried twice."""
    pytest.importorskip({"ray": "ray", "slurm": "submitit"}[name])
    made = suite(str(tiny))
    bad = Run.of("cora", hidden=8, heads=2)
    made = replace(made, runs=(*made.runs[:2], bad))
    store, calm = Store(tmp_path / "lab"), Store(tmp_path / "calm")
    store.open(made)
    engine = Ray(2) if name == "ray" else Slurm(2, cluster="local")
    engine.go(store, store.open_trials(made), None, nothing)
    for run in made.runs[:2]:
        trial(str(calm.folder), plain(run))
    assert len(rows(made, store)) == 2
    assert rows(made, store) == rows(made, calm)
    assert len(store.failures(bad.key)) == 2


def test_workers_end_where_sigterm_is_ignored(tiny, tmp_path):
    """A signal that a shell or a batch system ignores is ignored by every child."""
    made, store = suite(str(tiny)), Store(tmp_path / "lab")
    store.open(made)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        Local(1).go(store, made.runs[:1], None, nothing)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert store.done(made.runs[0].key)
