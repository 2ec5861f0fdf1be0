"""Read and write files safely: atomic writes, checked JSON, rows of JSON, names safe in paths."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Kind = type | tuple[type, ...]


class Damaged(ValueError):
    """A file that is not what it should be."""

    def __init__(self, path: Path | str, why: str | BaseException, expected: str) -> None:
        said = reason(why).rstrip(".")
        super().__init__(f"cannot read {path}: {said}; expected {expected}")


def reason(why: str | BaseException, most: int = 300) -> str:
    """An error as one line: libraries write paragraphs."""
    text = " ".join(str(why).split())
    if isinstance(why, KeyError):
        text = f"{text} is missing"
    elif not text:
        text = type(why).__name__
    return text if len(text) <= most else f"{text[:most]} …"


def parsed(text: str | bytes) -> Any:
    """json.loads, with ValueError for whatever cannot be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None


def read_json(path: Path, expected: str, **fields: Kind) -> dict[str, Any]:
    """The JSON object in a file, with at least these fields of these types."""
    try:
        content = parsed(path.read_bytes())
    except ValueError as error:  # broken JSON and broken UTF-8 are kinds of it
        raise Damaged(path, error, expected) from None
    return checked(content, path, expected, **fields)


def checked(content: Any, path: Path | str, expected: str, **fields: Kind) -> dict[str, Any]:
    """An object of a file, or Damaged where it is none or lacks a field."""
    if not isinstance(content, dict):
        raise Damaged(path, f"it holds {_kind(type(content))}, no object", expected)
    for name, kind in fields.items():
        if name not in content:
            raise Damaged(path, f"{name!r} is missing", expected)
        if not isinstance(content[name], kind):
            kinds = " or ".join(map(_kind, kind if isinstance(kind, tuple) else (kind,)))
            value = reason(json.dumps(content[name], ensure_ascii=False), 40)
            raise Damaged(path, f"{name!r} is {value}, not {kinds}", expected)
    return content


NUMBER = (int, float)
NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number",
         float: "a number", bool: "true or false", type(None): "null"}  # fmt: skip


def _kind(kind: type) -> str:
    return NAMES.get(kind, kind.__name__)


def made_of(kind: type[T], fields: Mapping[str, Any], path: Path | str, expected: str) -> T:
    """kind(**fields), of a file's fields."""
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        raise Damaged(path, error, expected) from error


def read_tensors(path: Path, expected: str) -> dict[str, Any]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise Damaged(path, error, expected) from None


@contextmanager
def writing_tensors(path: Path) -> Iterator[None]:
    """While safetensors writes: a full disk is an OSError, as it is for every other file."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise OSError(f"cannot write {path}: {reason(error)}; expected room for it") from error


def write(path: Path, text: str | bytes) -> Path:
    """Write under a temporary name in the same folder, flush to the disk, rename: a reader sees
    the old file or the new one, after a power cut too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = temporary_path(path)
    try:
        with half.open("xb") as file:  # x: never through a link that someone put there
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
        flush(path.parent)
    except OSError as error:
        if error.errno is not None:  # a full disk names no file, and others the half
            error.filename = str(path)
        raise
    finally:
        half.unlink(missing_ok=True)
    return path


def temporary_path(path: Path) -> Path:
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
    """One JSON object a line, compressed where the name ends in .gz. Lines end at "\\n" alone: JSON
    allows U+2028 and the like in a text, which str.splitlines takes for ends."""
    if not file.exists():
        raise FileNotFoundError(f"no file {file}; expected it there, one JSON object a line")
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            return [_row(line, file, n) for n, line in enumerate(lines, 1) if line.strip()]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Damaged(file, error, "gzip with one JSON object a line") from None


def _row(line: bytes, file: Path, number: int) -> dict[str, Any]:
    try:
        row = parsed(line)
        if not isinstance(row, dict):
            raise ValueError(f"it is a {type(row).__name__}")
    except ValueError as error:  # broken JSON and broken UTF-8 are kinds of it
        raise ValueError(
            f"{file}, line {number} cannot be read ({error}); expected one JSON object a line"
        ) from None
    return row


def place(path: str, name: str | None) -> Path:
    """The path of a data set in the folder of local data."""
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


def read_text(file: Path) -> str:
    """A text file in UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no UTF-8 text ({error.reason}); expected one") from None
    except OSError as error:
        raise ValueError(f"cannot read {file} ({error.strerror}); expected a text file") from None
