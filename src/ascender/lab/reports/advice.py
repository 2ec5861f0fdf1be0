"""Two sentences at the end of `ascender insight`: what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascender.core.rules import RULES
from ascender.lab.reports.model_insight import Measured
from ascender.lab.reports.strings import ADVICE, AXES
from ascender.lab.reports.tables import number

Said = tuple[str, str]
QUIET = 0.02  # of the attention: a rule that moves less is hardly there


def advice(found: Sequence[Measured], model: str) -> tuple[Said, Said]:
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
        "seen", rule=AXES[loudest], share=f"{means[loudest]:.1%}", layer=layer,
        most=f"{moved[loudest][layer]:.1%}",
    )  # fmt: skip
    muted = _muted(first)
    seen = seen[0] + muted[0] + ".", seen[1] + muted[1] + "."
    own = np.array(first.found[0]["moved"])[..., RULES.index(loudest)]
    at = {"layer": int(own.max(1).argmax()), "head": int(own[own.max(1).argmax()].argmax())}
    do = _said("look", model=model, rule=AXES[loudest], **at)
    quiet = [rule for rule in RULES if moved[rule].max() < QUIET]
    if quiet and len(quiet) < len(RULES):
        names = ([AXES[rule][i] for rule in quiet] for i in (0, 1))
        en, ko = (", ".join(some) for some in names)
        try_ = " ".join(f"--variant no-{rule}" for rule in quiet)
        more = _said("quiet", rules=(en, ko), share=f"{QUIET:.0%}", variants=try_)
        do = do[0] + more[0], do[1] + more[1]
    return seen, (do[0] + ".", do[1] + ".")


def _muted(m: Measured) -> Said:
    """What muting each rule does to the score, where there is one."""
    if not all("score" in f for f in m.found):
        return "", ""
    lost = {
        rule: float(np.mean([f["score"][rule] - f["score"][""] for f in m.found]))
        for rule in RULES
    }  # fmt: skip
    en, ko = (
        ", ".join(f"{AXES[rule][i]} {number(x, True)}" for rule, x in lost.items()) for i in (0, 1)
    )
    return _said("muted", scores=(en, ko))


def _groups(m: Measured) -> Said:
    """Which source finds the groups best."""
    found = {
        name: (np.mean([g["nmi"][0] for g in of]), np.mean([g["chance"][0] for g in of]))
        for name, of in m.groups().items()
    }
    if not found:
        return _said("nothing", variant=m.variant)
    of, layer = max(found, key=lambda name: found[name][0])
    nmi, chance = found[of, layer]
    return _said("groups", source=AXES[f"of_{of}"], layer=layer, nmi=f"{nmi:.2f}",
                 chance=f"{chance:.2f}")  # fmt: skip


def _said(key: str, /, **names: object) -> Said:
    """A pair among the names is one of (English, Korean) too."""
    en, ko = (
        ADVICE[key][i].format(**{k: v[i] if isinstance(v, tuple) else v for k, v in names.items()})
        for i in (0, 1)
    )
    return en, ko
