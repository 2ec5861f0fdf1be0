"""Several suites in one folder with one set of trials: a run that two suites name is run once.

DIR/trials/KEY/            every trial, once; packed: DIR/trials.jsonl.gz (lab.store)
DIR/NAME/suite.json        the sheet of a suite; DIR/NAME/trials is a link to DIR/trials
DIR/claims.json            the claims, how each is tested, and when it was fixed
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
    """A sentence of a paper, the suite that tests it, and the test by name with its options
    (lab.reports.claims). `fixed`: when its test was written down beside the trials."""

    text: str
    text_ko: str
    suite: str
    test: str
    given: Mapping[str, Any] = field(default_factory=dict)
    fixed: str = field(default="", compare=False)


@dataclass(frozen=True)
class Bundle:
    """Suites, by name or by file, in the order in which they are run, and the claims they test."""

    name: str
    claim: str
    suites: tuple[str, ...]
    claim_ko: str = ""
    claims: tuple[Claim, ...] = ()
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        plain_name("bundle", self.name)

    def load_suites(self) -> list[Suite]:
        """The suites, loaded."""
        suites = [suite(self._path(name)) for name in self.suites]
        wrong = [one for one in suites if not isinstance(one, Suite)]
        if wrong:
            raise ValueError(f"{self.name} has {wrong[0]!r}; expected suites, not bundles")
        return suites

    def _path(self, name: str) -> str:
        """Files are relative to the bundle's own."""
        return str(Path(self.source).parent / name) if name.endswith(".py") else name


def places(
    suite: Suite | Bundle, out: Path, seeds: int | None = None, make: bool = True
) -> list[tuple[Suite, Path]]:
    """(suite, its folder) of a suite or of each suite of a bundle, whose folders link to one folder
    of trials. `make`: create the links and write the claims."""
    if isinstance(suite, Suite):
        return [(suite if seeds is None else suite.with_seeds(seeds), out)]
    if (out / SHEET).exists():
        raise ValueError(f"{out} has a single suite; expected a new folder for {suite.name!r}")
    placed = []
    if make and suite.claims:
        _write_claims(suite, out)
    for one in suite.load_suites():
        link = out / one.name / TRIALS
        if make and not link.exists():
            (out / TRIALS).mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("..") / TRIALS, target_is_directory=True)
        placed.append((one if seeds is None else one.with_seeds(seeds), link.parent))
    return placed


def _write_claims(bundle: Bundle, out: Path) -> None:
    """With the time at which each was fixed: now, for those that are new or changed."""
    path = out / CLAIMS
    there = read_json(path, WROTE, claims=list)["claims"] if path.exists() else []
    claims = []
    for claim in bundle.claims:
        fixed = (one.fixed for one in (_claim(one, path) for one in there) if one == claim)
        claims.append({**asdict(claim), "fixed": next(fixed, now())})
    if claims != there:
        text = json.dumps({"name": bundle.name, "claims": claims}, ensure_ascii=False, indent=1)
        write(path, text)


def claimed(folder: Path) -> tuple[str, tuple[Claim, ...]]:
    """(name of the bundle, its claims) of a folder; ("", ()) if there are none."""
    path = folder / CLAIMS
    if not path.exists():
        return "", ()
    sheet = read_json(path, WROTE, name=str, claims=list)
    name = plain_name(f"name in {path}", sheet["name"])
    return name, tuple(_claim(one, path) for one in sheet["claims"])


def _claim(one: Any, path: Path) -> Claim:
    return made_of(Claim, checked(one, path, WROTE, fixed=str), path, WROTE)


def inside(folder: Path) -> list[Path]:
    """The suites' folders in a bundle's folder; none in the folder of a single suite."""
    if (folder / SHEET).exists():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{SHEET}"))
