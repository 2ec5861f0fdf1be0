"""Two sentences at the end of `ascender insight`: what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascender.core.rules import RULES
from ascender.lab.reports.cells import number
from ascender.lab.reports.model_insight import ModelInsight
from ascender.lab.reports.strings import STRINGS
from ascender.report.strings import Pair, joined, listed

QUIET = 0.02  # of the attention: a rule that moves less is hardly there


def advice(found: Sequence[ModelInsight], model: str) -> tuple[Pair, Pair]:
    """(seen, to do), each in English and Korean, of the first of `found`; `model` is the name of
    its first seed."""
    first = found[0]
    if not first.ruled:
        return _groups(first), _said("no_rules")
    moved = {rule: np.mean([np.array(f["moved"])[..., r] for f in first.found], axis=(0, 2))
             for r, rule in enumerate(RULES)}  # fmt: skip
    means = {rule: float(by_layer.mean()) for rule, by_layer in moved.items()}
    loudest = max(means, key=lambda rule: means[rule])
    layer = int(moved[loudest].argmax())
    seen = _said(
        "seen", rule=_name(loudest), share=f"{means[loudest]:.1%}", layer=layer,
        most=f"{moved[loudest][layer]:.1%}",
    )  # fmt: skip
    muted = _muted(first)
    seen = joined(seen, muted, (".", "."))
    own = np.array(first.found[0]["moved"])[..., RULES.index(loudest)]
    at = {"layer": int(own.max(1).argmax()), "head": int(own[own.max(1).argmax()].argmax())}
    do = _said("look", model=model, rule=_name(loudest), **at)
    quiet = [rule for rule in RULES if moved[rule].max() < QUIET]
    if quiet and len(quiet) < len(RULES):
        rules = listed([_name(rule) for rule in quiet])
        variants = " ".join(f"--variant no-{rule}" for rule in quiet)
        do = joined(do, _said("quiet", rules=rules, share=f"{QUIET:.0%}", variants=variants))
    return seen, joined(do, (".", "."))


def _muted(m: ModelInsight) -> Pair:
    """What muting each rule does to the score, where there is one."""
    if not all("score" in f for f in m.found):
        return "", ""
    lost = {
        rule: float(np.mean([f["score"][rule] - f["score"][""] for f in m.found]))
        for rule in RULES
    }  # fmt: skip
    scores = [joined(_name(rule), (f" {number(x, True)}",) * 2) for rule, x in lost.items()]
    return _said("muted", scores=listed(scores))


def _groups(m: ModelInsight) -> Pair:
    """Which source finds the groups best."""
    found = {
        name: (np.mean([g["nmi"][0] for g in of]), np.mean([g["chance"][0] for g in of]))
        for name, of in m.groups().items()
    }
    if not found:
        return _said("nothing", variant=m.variant)
    of, layer = max(found, key=lambda name: found[name][0])
    nmi, chance = found[of, layer]
    return _said("groups", source=_name(f"of_{of}"), layer=layer, nmi=f"{nmi:.2f}",
                 chance=f"{chance:.2f}")  # fmt: skip


def _said(key: str, /, **fields: object) -> Pair:
    return STRINGS.pair(f"advice.{key}", **fields)


def _name(term: str) -> Pair:
    return STRINGS.pair(f"axis.{term}")
