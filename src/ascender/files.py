"""Files, whole or not at all; where those of a data set lie."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str | bytes) -> Path:
    """Write under a temporary name beside the place, then rename: whoever reads sees the old file
    or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_bytes(text.encode() if isinstance(text, str) else text)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    return path


def place(path: str, name: str | None) -> Path:
    """Where in the folder a data set lies."""
    short = Path(path.rstrip("/").split("/")[-1])
    return short / name if name else short
