"""SQuAD's comparison of answers, which transformers had until its fifth version as
transformers.data.metrics.squad_metrics; lm-eval's SCROLLS, CoQA and XQuAD still import it there.
"""

from __future__ import annotations

import importlib.util
import re
import string
import sys
import types
from collections import Counter


def normalize_answer(text: str) -> str:
    """Lower case, without punctuation, articles and surplus blanks.

    >>> normalize_answer("The  answer, an apple!")
    'answer apple'
    """
    kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def compute_exact(gold: str, predicted: str) -> int:
    return int(normalize_answer(gold) == normalize_answer(predicted))


def compute_f1(gold: str, predicted: str) -> float:
    """2PR/(P + R) over words; where one of them has none, whether both have none.

    >>> compute_f1("a red apple", "the apple")
    0.6666666666666666
    """
    a, b = (normalize_answer(text).split() for text in (gold, predicted))
    if not a or not b:
        return float(a == b)
    same = sum((Counter(a) & Counter(b)).values())
    return 2 * same / (len(a) + len(b))


def put_in_place() -> None:
    """Under its old name, where transformers no longer has it."""
    name = "transformers.data.metrics"
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return
    package = types.ModuleType(name)
    package.squad_metrics = sys.modules[__name__]  # type: ignore[attr-defined]
    sys.modules[name] = package
    sys.modules[f"{name}.squad_metrics"] = sys.modules[__name__]
