"""Several suites as one: a folder each, one set of trials, so that a run that two of them name is
done once.

DIR/trials/KEY/            every trial, once
DIR/NAME/suite.json        a suite's own sheet; DIR/NAME/trials is a link to DIR/trials
DIR/claims.json            what is claimed, how it is tested, and since when that stands
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ascender.common.files import checked, made_of, plain_name, read_json, write
from ascender.lab.store import SHEET, TRIALS, WROTE, now
from ascender.lab.suite import Suite, suite

CLAIMS = "claims.json"


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and how one of the suites tests it (lab.reports.claims)."""

    text: str
    text_ko: str
    suite: str
    test: str
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bundle:
    """Suites, by name or by their files, in the order in which they are run, and what they are to
    show."""

    name: str
    claim: str
    suites: tuple[str, ...]
    claim_ko: str = ""
    claims: tuple[Claim, ...] = ()
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        plain_name("bundle", self.name)

    def made(self) -> list[Suite]:
        found = [suite(self._place(name)) for name in self.suites]
        wrong = [one for one in found if not isinstance(one, Suite)]
        if wrong:
            raise ValueError(f"{self.name} holds {wrong[0]!r}; expected suites, not bundles")
        return found

    def _place(self, name: str) -> str:
        """A file beside the bundle's own."""
        return str(Path(self.source).parent / name) if name.endswith(".py") else name


def places(
    made: Suite | Bundle, out: Path, seeds: int | None = None, make: bool = True
) -> list[tuple[Suite, Path]]:
    """(suite, its folder); those of a bundle share their trials, by links that are made."""
    if isinstance(made, Suite):
        return [(made if seeds is None else made.with_seeds(seeds), out)]
    if (out / SHEET).exists():
        raise ValueError(f"{out} holds a single suite; expected a new folder for {made.name!r}")
    found = []
    if make and made.claims:
        _write_down(made, out)
    for one in made.made():
        link = out / one.name / TRIALS
        if make and not link.exists():
            (out / TRIALS).mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("..") / TRIALS, target_is_directory=True)
        found.append((one if seeds is None else one.with_seeds(seeds), link.parent))
    return found


def _write_down(made: Bundle, out: Path) -> None:
    """The claims, and since when each stands."""
    path = out / CLAIMS
    there = read_json(path, WROTE, claims=list)["claims"] if path.exists() else []
    asked = []
    for claim in made.claims:
        since = (one["fixed"] for one in there if _claim(one, path) == claim)
        asked.append({**asdict(claim), "fixed": next(since, now())})
    if asked != there:
        write(path, json.dumps({"name": made.name, "claims": asked}, ensure_ascii=False, indent=1))


def claimed(folder: Path) -> tuple[str, tuple[Claim, ...]]:
    """(the bundle's name, its claims) as they are written in a folder; none where nothing is."""
    path = folder / CLAIMS
    if not path.exists():
        return "", ()
    sheet = read_json(path, WROTE, name=str, claims=list)
    name = plain_name(f"name in {path}", sheet["name"])
    return name, tuple(_claim(one, path) for one in sheet["claims"])


def _claim(one: Any, path: Path) -> Claim:
    fields = checked(one, path, WROTE, fixed=str)
    return made_of(Claim, {n: x for n, x in fields.items() if n != "fixed"}, path, WROTE)


def inside(folder: Path) -> list[Path]:
    """The folders of the suites in a bundle's folder; none where it is a single suite's."""
    if (folder / SHEET).exists():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{SHEET}"))
