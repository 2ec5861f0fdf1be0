"""What this machine has: which kernels run and why, packages and devices, and what is missing."""

from __future__ import annotations

import re
import shutil
from importlib import metadata
from typing import Any

from ascender.kernels.build import cache_folder, compiler, kernels
from ascender.measure import machine

PACKAGE = "ascender-attention"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def doctor() -> dict[str, Any]:
    """kernels, machine, extras and advice, as `ascender doctor --json` prints them."""
    extras = {name: _missing(packages) for name, packages in _extras().items()}
    native = kernels()
    advice = []
    if native.library is None:
        advice.append(f"native kernels: {native.reason}")
    advice += [
        f'{", ".join(missing)}: pip install "{PACKAGE}[{name}]"'
        for name, missing in extras.items()
        if missing
    ]
    return {
        "kernels": {
            "native": native.library is not None,
            "why": native.reason,
            "without": "torch operators (compact, folded): the same numbers, slower",
            "compiler": compiler(),
            "cache": str(cache_folder()),
        },
        "machine": {
            **machine.facts(),
            "cores": machine.cores(),
            "devices": ["cpu", *machine.gpus()],
            "triton": _version("triton"),
            "browser": next((b for b in BROWSERS if shutil.which(b)), None),
            "tex": shutil.which("xelatex"),
        },
        "extras": {name: missing or "installed" for name, missing in extras.items()},
        "advice": advice,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extras() -> dict[str, list[str]]:
    """The packages of each extra, its own extras followed; none where the package's metadata is
    not installed."""
    try:
        lines = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return {}
    direct: dict[str, list[str]] = {}
    for line in lines:
        if extra := re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line):
            direct.setdefault(extra[1], []).append(line.split(";")[0])

    def packages(extra: str) -> list[str]:
        names: list[str] = []
        for requirement in direct.get(extra, []):
            name = re.match(r"[\w.-]+", requirement)
            inner = re.search(r"\[([\w,-]+)\]", requirement)
            if name and name[0] == PACKAGE and inner:
                names += [p for e in inner[1].split(",") for p in packages(e)]
            elif name:
                names.append(name[0])
        return sorted(set(names))

    return {extra: packages(extra) for extra in direct if extra != "dev"}


def _missing(packages: list[str]) -> list[str]:
    return [name for name in packages if _version(name) is None]
