"""What the field reports beside the mean score: F1, correlations, BLEU, ROUGE-L, chrF."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def more(names: Sequence[str], told: Sequence[Any], meant: Sequence[Any]) -> dict[str, float]:
    """Metrics by name; 0 where one is not defined (a constant answer has no correlation)."""
    if not names or not len(told):
        return {}
    return {name: float(np.nan_to_num(REPORTS[name](meant, told))) for name in names}


def _sklearn(name: str, **options: Any) -> Callable[[Any, Any], float]:
    def found(meant: Any, told: Any) -> float:
        need("sklearn", "scikit-learn", "tasks")
        from sklearn import metrics

        return float(getattr(metrics, name)(meant, told, **options))

    return found


def _correlation(name: str) -> Callable[[Any, Any], float]:
    def found(meant: Any, told: Any) -> float:
        need("scipy", "scipy", "tasks")
        from scipy import stats

        constant = min(len(set(meant)), len(set(told))) < 2
        return 0.0 if constant else float(getattr(stats, name)(told, meant).statistic)

    return found


REPORTS: dict[str, Callable[[Any, Any], float]] = {
    "f1": _sklearn("f1_score", zero_division=0),
    "f1 macro": _sklearn("f1_score", average="macro", zero_division=0),
    "matthews": _sklearn("matthews_corrcoef"),
    "pearson": _correlation("pearsonr"),
    "spearman": _correlation("spearmanr"),
    "bleu": lambda meant, told: bleu(told, meant),
}


def need(module: str, package: str, extra: str) -> None:
    """The module can be imported, or an error that says how to get it."""
    if importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(
            f'{package} is not here; expected: pip install "ascender-attention[{extra}]"'
        )


def bleu(told: Sequence[str], meant: Sequence[str]) -> float:
    """sacrebleu's corpus BLEU, 0 to 100."""
    need("sacrebleu", "sacrebleu", "eval")
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(told), [list(meant)]).score)


def rouge_l(meant: str, told: str) -> float:
    """ROUGE-L: 2·LCS/(n + m) over words as SQuAD normalises them; LCS = the longest common
    subsequence.

    >>> rouge_l("the red fox jumped", "a fox then jumped")
    0.6666666666666666
    """
    from ascender.hf.squad_metrics import normalize_answer

    a, b = (normalize_answer(text).split() for text in (meant, told))
    if not a or not b:
        return float(a == b)
    best = [0] * (len(b) + 1)
    for word in a:
        before = best
        best = [0]
        for j, other in enumerate(b):
            best.append(before[j] + 1 if word == other else max(before[j + 1], best[j]))
    return 2 * best[-1] / (len(a) + len(b))


def chrf(meant: str, told: str, n: int = 6, beta: float = 2.0) -> float:
    """chrF of a sentence: F_β of the precision and recall of character n-grams, each the mean
    over the orders 1 … n that both have; blanks do not count.

    >>> chrf("a cat", "a cat"), chrf("a cat", "dog")
    (1.0, 0.0)
    """
    a, b = ("".join(text.split()) for text in (meant, told))
    precision, recall = [], []
    for k in range(1, n + 1):
        x, y = (Counter(t[i : i + k] for i in range(len(t) - k + 1)) for t in (a, b))
        if not x or not y:
            break
        same = sum((x & y).values())
        precision.append(same / sum(y.values()))
        recall.append(same / sum(x.values()))
    P, R = (float(np.mean(side)) if side else 0.0 for side in (precision, recall))
    return (1 + beta**2) * P * R / (beta**2 * P + R) if P + R else float(a == b)
