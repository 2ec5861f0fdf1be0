"""Compiles the C kernels on first use, into a cache folder of the user.

The file's name is a hash of sources, flags, compiler and CPU, so that a change of any of them
builds anew. It is written under a temporary name and renamed; the folder must belong to the user
and be closed to others. Whatever fails, there is no error: the torch operators run instead, and
`ascender doctor` says why.

    ASCENDER_NATIVE=0     never compile or load the kernels
    ASCENDER_CACHE=DIR    the cache folder (default: $XDG_CACHE_HOME/ascender or ~/.cache/ascender)
    CC                    the compiler (default: cc, gcc or clang)
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MAIN = "kernels.c"
SOURCES = (
    MAIN, "vectors.h", "visible.h", "attention.c", "token.c", "topk.c", "lists.c",
    "lists_backward.c", "list_token.c", "team.c",
)  # fmt: skip
FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
TUNED = (("-march=native",), ("-mcpu=native",), ())  # the first that the compiler takes
SECONDS = 120


@dataclass(frozen=True)
class Kernels:
    """The loaded library, or why there is none; and which file it is."""

    library: ctypes.CDLL | None
    reason: str
    path: Path | None = None


class _Unavailable(Exception):
    """Why the kernels cannot be used."""


@lru_cache(1)
def kernels() -> Kernels:
    """Built where needed, and loaded. The same answer for the whole process."""
    try:
        path = _built()
        return Kernels(ctypes.CDLL(str(path)), f"compiled C kernels, {path.name}", path)
    except _Unavailable as why:
        return Kernels(None, str(why))
    except OSError as error:
        return Kernels(None, f"the compiled library cannot be loaded: {error}")


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    if folder := os.environ.get("ASCENDER_CACHE"):
        return Path(folder)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "ascender"
    return Path.home() / ".cache" / "ascender"


def compiler() -> str | None:
    """The path of the C compiler, if there is one."""
    named = os.environ.get("CC")
    candidates = [named] if named else ["cc", "gcc", "clang"]
    return next((path for c in candidates if (path := shutil.which(c))), None)


def _built() -> Path:
    if os.environ.get("ASCENDER_NATIVE", "1") in ("0", "false", "off"):
        raise _Unavailable(f"ASCENDER_NATIVE={os.environ['ASCENDER_NATIVE']} turns them off")
    cc = compiler()
    if cc is None:
        raise _Unavailable("no C compiler (cc, gcc, clang or $CC); install one, e.g. gcc")
    folder = _private_folder()
    target = folder / f"kernels-{_key(cc)}.so"
    if target.exists():
        return target
    handle, name = tempfile.mkstemp(dir=folder, prefix="building-", suffix=".so")
    os.close(handle)
    temporary = Path(name)
    try:
        _compile(cc, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _compile(cc: str, target: Path) -> None:
    """By the first of TUNED that works; the last compiler's message where none does."""
    source = Path(__file__).parent / MAIN
    said = ""
    for tuned in TUNED:
        command = [cc, *FLAGS, *tuned, str(source), "-o", str(target), "-lm"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _Unavailable(f"{cc} failed: {error}") from None
        if done.returncode == 0:
            return
        said = done.stderr.strip()
    raise _Unavailable(f"{cc} failed: {said[-400:]}")


def _private_folder() -> Path:
    """The cache folder, made for its owner only; refused where others may write to it."""
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except (OSError, RuntimeError) as error:
        raise _Unavailable(f"no cache folder: {error}") from None
    if hasattr(os, "getuid") and about.st_uid != os.getuid():
        raise _Unavailable(f"cache folder {folder} belongs to another user")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Unavailable(f"cache folder {folder} may be written by others; expected mode 700")
    if not os.access(folder, os.W_OK):
        raise _Unavailable(f"cache folder {folder} cannot be written")
    return folder


def _key(cc: str) -> str:
    """Sources, flags, compiler and CPU as one hash."""
    known = hashlib.sha256()
    for name in SOURCES:
        known.update((Path(__file__).parent / name).read_bytes())
    known.update(repr((FLAGS, TUNED, cc, _version(cc), _cpu())).encode())
    return known.hexdigest()[:24]


def _version(cc: str) -> str:
    try:
        done = subprocess.run([cc, "--version"], capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(f"{cc} failed: {error}") from None
    return done.stdout


def _cpu() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    about = {line.split(":")[0].strip(): line for line in reversed(lines) if ":" in line}
    parts = [
        about.get(name, "") for name in ("vendor_id", "cpu family", "model", "flags", "Features")
    ]
    return "".join([platform.machine(), platform.processor(), *parts])
