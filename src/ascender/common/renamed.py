"""Names that changed in 0.2.0: an old name raises an error that gives the new one.

It is never read silently, as the name of a variant is part of a run's key.
"""

from __future__ import annotations

RENAMED = {
    "variant": {
        "align": "only-align", "sep": "only-sep", "coh": "only-coh",
        "mute": "no-rules", "raw": "unstandardised", "reuse": "shared-neighbours",
        "one-number": "shared-numbers", "fast": "shared-qknorm",
        "lower": "rules-lower", "upper": "rules-upper",
    },
    "suite": {
        "elsewhere": "ablation_other_tasks", "partners": "compatibility_other_tasks",
        "muted": "against_no_rules", "first": "replicate_first_trials",
        "choices": "tune_defaults", "settings": "tune_rates",
        "long_settings": "tune_rates_long", "variations": "sensitivity",
    },
}  # fmt: skip


def check_renamed(what: str, name: str) -> None:
    """Refuse the old name of a variant or a suite."""
    if name in RENAMED[what]:
        raise ValueError(f"unknown {what} {name!r}: {name!r} is now {RENAMED[what][name]!r}")
