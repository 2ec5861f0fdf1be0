"""Who does the trials: processes here, a Ray cluster, or SLURM. All of them call lab.trial.

engine.go(store, runs, data_dir, tick)     tick() is called now and then; what fails is in the
                                           store after a second try
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ascender.lab.store import TRIES, Store, as_json
from ascender.lab.trial import trial
from ascender.train import Run

Say = Callable[[], None]


class Local:
    """One process a core, threads pinned; a worker that dies is replaced, its trial tried again."""

    def __init__(self, workers: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
        self.workers = workers or cores

    def go(self, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say) -> None:
        jobs: queue.SimpleQueue[Run] = queue.SimpleQueue()
        for run in runs:
            jobs.put(run)
        cores = [_Core(store, jobs, data_dir) for _ in range(min(self.workers, len(runs)))]
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

    def __init__(self, store: Store, jobs: queue.SimpleQueue[Run], data_dir: str | None) -> None:
        super().__init__(daemon=True)
        self.store, self.jobs, self.data_dir = store, jobs, data_dir
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
        """Whether it came to an end that needs no second try."""
        if self.worker is None or self.worker.poll() is not None:
            self.worker = self._new()
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        job = {"folder": str(self.store.folder), "run": as_json(run), "data_dir": self.data_dir}
        try:
            self.worker.stdin.write(json.dumps(job) + "\n")
            self.worker.stdin.flush()
            line = self.worker.stdout.readline()
        except OSError:
            line = ""
        if line.strip():
            return bool(json.loads(line)["state"] != "failed")
        if not self.stopped:
            self.store.fail(run.key, f"the worker died (exit code {self.worker.wait()})")
        return False

    def _new(self) -> subprocess.Popen[str]:
        pinned = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        with (self.store.folder / "workers.log").open("a") as log:
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


class Ray:
    """On a cluster by address, or one that is started here; the folder must be shared by all."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.workers, self.address = workers, address

    def go(self, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                'engine ray needs ray; expected: pip install "ascender-attention[ray]"'
            ) from None
        if self.address:
            ray.init(address=self.address, log_to_driver=False)
        else:
            ray.init(num_cpus=self.workers, include_dashboard=False, log_to_driver=False)
        env = {"env_vars": {"OMP_NUM_THREADS": "1"}}
        task = ray.remote(num_cpus=1, max_retries=0, runtime_env=env)(trial)
        folder = str(store.folder.resolve())
        tries = {run.key: 0 for run in runs}
        bykey = {run.key: run for run in runs}
        try:
            waiting = {task.remote(folder, as_json(run), data_dir): run.key for run in runs}
            while waiting:
                tick()
                done, _ = ray.wait(list(waiting), timeout=0.5)
                for ref in done:
                    key = waiting.pop(ref)
                    tries[key] += 1
                    if _failed(ray, ref, store, key) and tries[key] < TRIES:
                        waiting[task.remote(folder, as_json(bykey[key]), data_dir)] = key
        finally:
            ray.shutdown()
        tick()


def _failed(ray: Any, ref: Any, store: Store, key: str) -> bool:
    """Whether a task did not come to an answer, or to a bad one."""
    try:
        return bool(ray.get(ref)["state"] == "failed")
    except ray.exceptions.RayError as error:
        store.fail(key, f"the worker died ({type(error).__name__})")
        return True


class Slurm:
    """Jobs of an array through submitit. `cluster="local"` runs them here, as a test does."""

    def __init__(
        self, workers: int | None = None, cluster: str | None = None, **options: Any
    ) -> None:
        self.workers, self.cluster, self.options = workers, cluster, options

    def go(self, store: Store, runs: Sequence[Run], data_dir: str | None, tick: Say) -> None:
        try:
            import submitit
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                'engine slurm needs submitit; expected: pip install "ascender-attention[slurm]"'
            ) from None
        executor = submitit.AutoExecutor(store.folder / "slurm", cluster=self.cluster)
        more = {"slurm_array_parallelism": self.workers} if self.workers else {}
        executor.update_parameters(
            **{"cpus_per_task": 1, "timeout_min": 240, **more, **self.options}
        )
        runs = list(runs)
        for _ in range(TRIES):
            folder = str(store.folder.resolve())
            with executor.batch():
                jobs = [executor.submit(trial, folder, as_json(r), data_dir) for r in runs]
            again = []
            for run, job in zip(runs, jobs, strict=True):
                while not job.done():
                    tick()
                    time.sleep(0.5)
                error = job.exception()
                if error is not None:
                    store.fail(run.key, f"the job died ({type(error).__name__})")
                if error is not None or job.result()["state"] == "failed":
                    again.append(run)
            runs = again
            if not runs:
                break
        tick()


ENGINES: dict[str, type[Any]] = {"local": Local, "ray": Ray, "slurm": Slurm}
