"""Files, whole or not at all; rows of JSON; names that become part of a path; where the files of a
data set lie."""

from __future__ import annotations

import json
import os
import re
import secrets
from pathlib import Path
from typing import Any


def write(path: Path, text: str | bytes) -> Path:
    """Write under a temporary name beside the place, flush to the disk, rename: whoever reads sees
    the old file or the new one, after a power cut too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = beside(path)
    try:
        with half.open("xb") as file:  # x: never through a link that someone put there
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
        flush(path.parent)
    finally:
        half.unlink(missing_ok=True)
    return path


def beside(path: Path) -> Path:
    """A temporary name in the same folder that nobody can guess."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def flush(path: Path) -> None:
    """A file, or the entries of a folder, to the disk: a rename may otherwise outrun what it
    names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_rows(file: Path) -> list[dict[str, Any]]:
    """One JSON object a line. Lines end at "\\n" alone: JSON allows U+2028 and the like in a text,
    which str.splitlines takes for ends."""
    if not file.exists():
        raise FileNotFoundError(f"no file {file}; expected it there, one JSON object a line")
    found = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"it is a {type(row).__name__}")
            except (ValueError, RecursionError) as error:  # broken JSON or UTF-8, or nested deep
                raise ValueError(
                    f"{file}, line {number} cannot be read ({error}); expected one JSON object a "
                    "line"
                ) from None
            found.append(row)
    return found


def place(path: str, name: str | None) -> Path:
    """Where in the folder a data set lies."""
    short = Path(path.rstrip("/").split("/")[-1])
    return short / name if name else short


def plain_name(what: str, name: object) -> str:
    """A name that was read from a file and becomes part of a path: never a path itself."""
    if (
        not isinstance(name, str)
        or not re.fullmatch(r"[^\s./\\][^\s/\\]{0,199}", name)
        or not name.isprintable()
    ):
        raise ValueError(
            f"{what} = {name!r}; expected a name: no path, no spaces, no dot in front, at most 200 "
            "characters"
        )
    return name
