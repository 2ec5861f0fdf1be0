"""Who takes part in which study of time, memory and FLOPs against stock SDPA, by name."""

from __future__ import annotations

from ascender.bench.candidates import CANDIDATES, Candidate
from ascender.bench.variants import VARIANTS

STUDIES: dict[str, dict[str, Candidate]] = {"attention": CANDIDATES, "variants": VARIANTS}


def labels(study: str) -> dict[str, str]:
    return {name: candidate.label for name, candidate in STUDIES[study].items()}
