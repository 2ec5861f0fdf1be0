"""Engines that run trials: local processes, a Ray cluster, or SLURM. All call lab.trial.

engine.go(store, runs, data_dir, tick)     tick() is called now and then; what fails is in the
                                           store after a second try
finish(engine, …)                          the same until every trial is done or has failed
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ascender.common.user_code import error_line
from ascender.common.validate import need
from ascender.lab.store import TRIES, Store, as_json
from ascender.lab.trial import trial
from ascender.train import Run

Say = Callable[[], None]


class Local:
    """One process per core, one thread each; a worker that dies is replaced, its trial retried."""

    def __init__(self, workers: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
        self.workers = workers or cores

    def go(self, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say) -> None:
        jobs: queue.SimpleQueue[Run] = queue.SimpleQueue()
        for run in runs:
            jobs.put(run)
        cores = [_Core(store, jobs, data_dir, i) for i in range(min(self.workers, len(runs)))]
        for core in cores:
            core.start()
        try:
            while any(core.is_alive() for core in cores):
                tick()
                time.sleep(0.3)
        finally:
            for core in cores:
                core.stop()
        tick()


class _Core(threading.Thread):
    """Hands jobs to a worker process of its own until there are none."""

    def __init__(
        self, store: Store, jobs: queue.SimpleQueue[Run], data_dir: str | None, number: int
    ) -> None:
        super().__init__(daemon=True)
        self.store, self.jobs, self.data_dir = store, jobs, data_dir
        self.log = store.folder / f"worker-{os.getpid()}-{number}.log"  # kept if it dies
        self.died = False
        self.worker: subprocess.Popen[str] | None = None
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                break
            for _ in range(TRIES):
                if self.stopped or self._try(job):
                    break
        self._end()

    def _try(self, run: Run) -> bool:
        """Whether it ended in a way that needs no second try."""
        if self.worker is None or self.worker.poll() is not None:
            self.worker = self._new()
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        job = {"folder": str(self.store.folder), "run": as_json(run), "data_dir": self.data_dir,
               "source": self.store.source}  # fmt: skip
        try:
            self.worker.stdin.write(json.dumps(job) + "\n")
            self.worker.stdin.flush()
            line = self.worker.stdout.readline()
        except OSError:
            line = ""
        if line.strip():
            return bool(json.loads(line)["state"] != "failed")
        if not self.stopped:
            self.died = True
            self.store.fail(run.key, f"the worker died ({self._why(self.worker.wait())})")
        return False

    def _why(self, code: int) -> str:
        """A signal where one ended it, and the last line that it wrote."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
        last = f": {lines[-1]}" if lines[-1] else ""
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{how}{last}; {self.log}"

    def _new(self) -> subprocess.Popen[str]:
        pinned = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        with self.log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ascender.lab.trial"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **pinned},
            )  # fmt: skip

    def stop(self) -> None:
        self.stopped = True
        self._end()
        self.join(timeout=10)

    def _end(self) -> None:
        worker = self.worker
        if worker is not None and worker.poll() is None:
            worker.terminate()
            try:
                worker.wait(timeout=5)
            except subprocess.TimeoutExpired:  # SIGTERM may be ignored, as in some batch systems
                worker.kill()
                worker.wait()
        if not self.died:
            self.log.unlink(missing_ok=True)


class Ray:
    """On a cluster by address, or one that is started here; the folder must be shared by all."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.workers, self.address = workers, address

    def go(self, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say) -> None:
        need("ray", "ray")
        import ray

        if self.address:
            ray.init(address=self.address, log_to_driver=False)
        else:
            ray.init(num_cpus=self.workers, include_dashboard=False, log_to_driver=False)
        env = {"env_vars": {"OMP_NUM_THREADS": "1"}}
        task = ray.remote(num_cpus=1, max_retries=0, runtime_env=env)(trial)
        folder = str(store.folder.resolve())
        tries = {run.key: 0 for run in runs}
        bykey = {run.key: run for run in runs}

        def send(run: Run) -> Any:
            return task.remote(folder, as_json(run), data_dir, store.source)

        try:
            waiting = {send(run): run.key for run in runs}
            while waiting:
                tick()
                done, _ = ray.wait(list(waiting), timeout=0.5)
                for ref in done:
                    key = waiting.pop(ref)
                    tries[key] += 1
                    if _failed(ray, ref, store, key) and tries[key] < TRIES:
                        waiting[send(bykey[key])] = key
        finally:
            ray.shutdown()
        tick()


def _failed(ray: Any, ref: Any, store: Store, key: str) -> bool:
    """Whether a task crashed or reported a failure."""
    try:
        return bool(ray.get(ref)["state"] == "failed")
    except ray.exceptions.RayError as error:
        store.fail(key, f"the worker died ({error_line(error)})")
        return True


class Slurm:
    """Jobs of an array through submitit. `cluster="local"` runs them here, as a test does."""

    def __init__(
        self, workers: int | None = None, cluster: str | None = None, **options: Any
    ) -> None:
        self.workers, self.cluster, self.options = workers, cluster, options

    def go(self, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say) -> None:
        need("submitit", "slurm")
        import submitit

        executor = submitit.AutoExecutor(store.folder / "slurm", cluster=self.cluster)
        more = {"slurm_array_parallelism": self.workers} if self.workers else {}
        executor.update_parameters(
            **{"cpus_per_task": 1, "timeout_min": 240, **more, **self.options}
        )
        runs = list(runs)
        for _ in range(TRIES):
            folder = str(store.folder.resolve())
            with executor.batch():
                jobs = [
                    executor.submit(trial, folder, as_json(r), data_dir, store.source) for r in runs
                ]
            again = []
            for run, job in zip(runs, jobs, strict=True):
                while not job.done():
                    tick()
                    time.sleep(0.5)
                error = job.exception()
                if error is not None:
                    store.fail(run.key, f"the job died ({error_line(error)})")
                if error is not None or job.result()["state"] == "failed":
                    again.append(run)
            runs = again
            if not runs:
                break
        tick()


WAIT = 1.0  # seconds between checks of trials that others have locked


def finish(
    engine: Any, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say,
    note: Callable[[str], None],
) -> None:  # fmt: skip
    """Run the trials; wait for those that another process has locked, and take them over when it
    releases them."""
    engine.go(store, runs, data_dir, tick)
    waiting = 0
    while left := [run for run in runs if store.is_open(run.key)]:
        free = [run for run in left if not store.locked(run.key)]
        if free:
            engine.go(store, free, data_dir, tick)
        elif waiting != len(left):
            waiting = len(left)
            note(f"waiting for {waiting} trials that another process holds (Ctrl-C stops)")
        tick()
        time.sleep(WAIT)


ENGINES: dict[str, type[Any]] = {"local": Local, "ray": Ray, "slurm": Slurm}
