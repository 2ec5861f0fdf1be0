"""User code by name, `module:Class`: tasks, attentions and parsers that are not in the package.

Whoever types such a name (a command line, a program) imports its module; a name that stands in a
file only finds what is imported already, so that to open a folder runs nothing from it.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ascender.common.validate import nearest

CODE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")


def is_code(name: object) -> bool:
    """Whether it has the form module:Class."""
    return isinstance(name, str) and ":" in name


def import_code(name: str, here: bool = False) -> None:
    """Import the module of `module:Class` on behalf of whoever typed that name: a command line or a
    program, never a file. `here`: the current folder comes first, as with python -m, for the time
    of the import."""
    module, _ = _parts(name)
    if module in sys.modules:
        return
    folder = str(Path.cwd())
    if here:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        importlib.import_module(module)
    except Exception as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            places = f"in {folder} or " if here else ""
            raise ValueError(
                f"no module {missing!r} {places}on Python's path; expected the one of {name!r} "
                "(module:Class)"
            ) from None
        raise ValueError(f"cannot import {module}: {error_line(error)}") from error
    finally:
        if here:
            sys.path.remove(folder)


def is_imported(name: str) -> bool:
    """Whether the module of `module:Class` is there already."""
    return _parts(name)[0] in sys.modules


def code(what: str, name: str, base: type) -> Any:
    """The class that `module:Class` names, of a module that is imported already: a name that stands
    in a file must not bring code in."""

    def fits(value: Any) -> bool:
        return isinstance(value, type) and issubclass(value, base)

    return _member(what, name, fits, f"a class derived from {base.__name__}")


def function(what: str, name: str) -> Any:
    """The function that `module:function` names, under the same condition."""
    return _member(what, name, callable, "a function")


def _member(what: str, name: str, fits: Callable[[Any], bool], expected: str) -> Any:
    """What a name stands for, where its module is imported and it is what was expected."""
    module, member = _parts(name)
    if module not in sys.modules:
        raise ValueError(
            f"{what} = {name!r} is code that is not imported; expected --trust-code, which imports "
            f"it (in Python: trust_code=True, or import {module} before)"
        )
    home = sys.modules[module]
    value = getattr(home, member, None)
    if not fits(value):
        known = [n for n, x in vars(home).items() if fits(x)]
        raise ValueError(
            f"{what} = {name!r} is {'not there' if value is None else repr(value)}"
            f"{nearest(member, known)}; expected {expected} in "
            f"{getattr(home, '__file__', None) or module}"
        )
    return value


def _parts(name: str) -> tuple[str, str]:
    match = CODE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r}; expected module:Class, such as my_module:MyClass")
    return match[1], match[2]


def error_line(error: BaseException) -> str:
    """An error in a line: its kind, what it says and where it was raised."""
    said = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:  # says itself where
        return said
    return f"{said} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
