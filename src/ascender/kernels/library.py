"""The functions of the compiled library, and their tasks spread over torch's threads."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ascender.kernels.build import kernels

SHARES = 4  # portions a thread, so that one that was held up does fewer
PROCESS = os.getpid()  # OpenMP's threads do not survive a fork


def outer_strides(t: Tensor) -> tuple[int, ...]:
    """Of the first three axes, 0 where one serves all."""
    return tuple(s if n > 1 else 0 for s, n in zip(t.stride()[:3], t.shape[:3], strict=True))


class View(c.Structure):
    """A float32 tensor (B, h, n, w) whose last axis is contiguous."""

    _fields_ = [("p", c.c_void_p), ("b", c.c_long), ("h", c.c_long), ("n", c.c_long)]

    @staticmethod
    def of(t: Tensor | None) -> View:
        if t is None:
            return View()
        b, h, n, _ = t.stride()
        return View(t.data_ptr(), b, h, n)


def views(tensors: Sequence[Tensor | None]) -> c.Array[c.c_long]:
    """The memory of as many Views: for one token, where a structure each would cost too much."""
    flat: list[int] = []
    for t in tensors:
        flat += (0, 0, 0, 0) if t is None else (t.data_ptr(), *t.stride()[:3])
    return (c.c_long * len(flat))(*flat)


class Visible(c.Structure):
    """Masks of a call: kernels/visible.h."""

    @staticmethod
    def of(
        p: Tensor, j: Tensor, mask: Tensor | None, causal: bool, window: int, n_global: int,
        cross: bool, beyond: int = -1,
    ) -> Visible:  # fmt: skip
        """p, j: int32 positions; mask: bool (b, h, n, M), each of b, h, n full or 1."""
        strides = (0,) * 3 if mask is None else outer_strides(mask)
        at = None if mask is None else mask.data_ptr()
        return Visible(
            p.numel(), j.numel(), causal, window, n_global, cross, beyond, p.data_ptr(),
            j.data_ptr(), at, *strides,
        )  # fmt: skip

    _fields_ = [
        *((n, c.c_int) for n in ("N", "M", "causal", "window", "n_global", "cross", "beyond")),
        ("p", c.c_void_p),
        ("j", c.c_void_p),
        ("mask", c.c_void_p),
        *((name, c.c_long) for name in ("mask_b", "mask_h", "mask_n")),
    ]


TENSORS = (
    "q", "k", "unit", "v", "zq", "zk", "hq", "hk", "other", "out",
    "g", "dq", "dk", "dunit", "dv", "dzq", "dzk", "dhq", "dhk", "dother",
)  # fmt: skip
NUMBERS = (
    "B", "H", "groups", "d", "e", "dz", "da", "K", "search", "standardise", "local",
    "align", "sep", "coh", "same_z", "same_h",
)  # fmt: skip


class Args(c.Structure):
    """Arguments of asc_forward and asc_backward: kernels/attention.c."""

    _fields_ = [
        *((name, c.c_int) for name in NUMBERS),
        ("see", Visible),
        *((name, View) for name in TENSORS),
        ("sizes", c.c_void_p),
        ("list", c.c_void_p),
        *((name, c.c_long) for name in ("list_b", "list_h", "list_n")),
        *((name, c.c_void_p) for name in ("numbers", "saved", "dnumbers", "nonfinite")),
    ]


TOKEN_VIEWS = 10  # q, keys, bare, scale, v, zq, z, hq, h, out


class Token(c.Structure):
    """Arguments of asc_token: kernels/token.c."""

    _fields_ = [
        *(
            (name, c.c_int)
            for name in ("B", "H", "groups", "share", "M", "d", "e", "dz", "da", "k")
        ),
        *((name, c.c_int) for name in ("align", "sep", "coh", "causal")),
        ("views", c.c_long * (4 * TOKEN_VIEWS)),
        ("key_scale", c.c_void_p),
        ("numbers", c.c_void_p),
    ]


class ListToken(c.Structure):
    """Arguments of asc_list_token: kernels/list_token.c."""

    _fields_ = [
        *((name, c.c_int) for name in ("B", "H", "G", "Z", "M", "d", "e", "dz", "da")),
        *((name, c.c_int) for name in ("far", "k", "window", "n_global")),
        *((name, c.c_int) for name in ("term", "standardise", "local", "align", "sep", "coh")),
        ("views", c.c_long * (4 * TOKEN_VIEWS)),
        *((name, c.c_void_p) for name in ("key_scale", "numbers", "bias", "given")),
        ("given_b", c.c_long),
    ]


class Top(c.Structure):
    """Arguments of asc_top: kernels/topk.c."""

    _fields_ = [
        *((name, c.c_int) for name in ("B", "heads", "w", "K", "bounded")),
        ("see", Visible),
        ("x", View),
        ("y", View),
        ("sizes", c.c_void_p),
        ("idx", c.c_void_p),
        ("bias", c.c_void_p),
    ]


class Team(c.Structure):
    """What the threads of a team share: kernels/team.c."""

    _fields_ = [
        ("kernel", c.c_void_p),
        ("args", c.c_void_p),
        *((name, c.c_int) for name in ("tasks", "each", "next", "ok")),
    ]


@lru_cache(1)
def functions() -> c.CDLL:
    """The library with its signatures."""
    library = kernels().library
    if library is None:
        raise RuntimeError(f"no compiled kernels: {kernels().reason}")
    library.asc_saved.argtypes, library.asc_saved.restype = [c.c_void_p], c.c_long
    for count in (library.asc_top_tasks, library.asc_list_tasks):
        count.argtypes = [c.c_void_p]
    names = ("forward", "backward", "token", "top", "list_forward", "list_backward", "list_token")
    for f in (getattr(library, f"asc_{name}") for name in names):
        f.argtypes, f.restype = [c.c_void_p, c.c_int, c.c_int], c.c_int
    return library


def run(function: Any, args: c.Structure, tasks: int) -> None:
    """All tasks, as many at a time as torch has threads. ctypes releases the interpreter."""
    address, threads = c.addressof(args), min(torch.get_num_threads(), tasks)
    if threads <= 1:
        done = [function(address, 0, tasks)]
    elif (fork := _openmp()) is not None and os.getpid() == PROCESS:
        each = max(1, tasks // (SHARES * threads))
        team = Team(c.cast(function, c.c_void_p), address, tasks, each, 0, 1)
        fork(functions().asc_team, c.addressof(team), threads, 0)
        done = [team.ok]
    else:
        cuts = [tasks * i // threads for i in range(threads + 1)]
        pairs = list(pairwise(cuts))
        rest = [_pool(os.getpid()).submit(function, address, a, b) for a, b in pairs[1:]]
        done = [function(address, *pairs[0]), *(r.result() for r in rest)]
    if not all(done):
        raise MemoryError("no memory for the scratch of the attention kernel")


@lru_cache(1)
def _openmp() -> Callable[..., None] | None:
    """GNU OpenMP's "run this on a team of threads", from the library that torch has loaded: its
    threads wait for work on all cores, where threads of another pool would wait for them. None
    where torch uses another library."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
        path = next(line.split(maxsplit=5)[-1] for line in maps if "/libgomp" in line)
        fork = c.CDLL(path).GOMP_parallel
    except (OSError, StopIteration, AttributeError):
        return None
    fork.argtypes, fork.restype = [c.c_void_p, c.c_void_p, c.c_uint, c.c_uint], None
    return fork


@lru_cache(1)
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not survive a fork."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), f"ascender-kernels-{process}")
