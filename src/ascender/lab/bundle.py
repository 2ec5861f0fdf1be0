"""Several suites as one: a folder each, one set of trials, so that a run that two of them name is
done once.

DIR/trials/KEY/            every trial, once
DIR/NAME/suite.json        a suite's own sheet; DIR/NAME/trials is a link to DIR/trials
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ascender.lab.store import SHEET, TRIALS
from ascender.lab.suite import Suite, suite


@dataclass(frozen=True)
class Bundle:
    """Suites by name, in the order in which they are run."""

    name: str
    claim: str
    suites: tuple[str, ...]
    claim_ko: str = ""

    def made(self) -> list[Suite]:
        found = [suite(name) for name in self.suites]
        wrong = [one for one in found if not isinstance(one, Suite)]
        if wrong:
            raise ValueError(f"{self.name} holds {wrong[0]!r}; expected suites, not bundles")
        return found


def places(
    made: Suite | Bundle, out: Path, seeds: int | None = None, make: bool = True
) -> list[tuple[Suite, Path]]:
    """(suite, its folder); those of a bundle share their trials, by links that are made."""
    if isinstance(made, Suite):
        return [(made if seeds is None else made.with_seeds(seeds), out)]
    if (out / SHEET).exists():
        raise ValueError(f"{out} holds a single suite; expected a new folder for {made.name!r}")
    found = []
    for one in made.made():
        link = out / one.name / TRIALS
        if make and not link.exists():
            (out / TRIALS).mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("..") / TRIALS, target_is_directory=True)
        found.append((one if seeds is None else one.with_seeds(seeds), link.parent))
    return found


def inside(folder: Path) -> list[Path]:
    """The folders of the suites in a bundle's folder; none where it is a single suite's."""
    if (folder / SHEET).exists():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{SHEET}"))
