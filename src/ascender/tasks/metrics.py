"""What the field reports beside the mean score: F1, correlations, BLEU, ROUGE-L, chrF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascender.common.validate import need


def more(names: Sequence[str], predicted: Sequence[Any], target: Sequence[Any]) -> dict[str, float]:
    """Metrics by name; 0 where one is not defined (a constant answer has no correlation)."""
    if not names or not len(predicted):
        return {}
    return {name: float(np.nan_to_num(REPORTS[name](target, predicted))) for name in names}


def _sklearn(name: str, **options: Any) -> Callable[[Any, Any], float]:
    def metric(target: Any, predicted: Any) -> float:
        need("sklearn", "tasks")
        from sklearn import metrics

        return float(getattr(metrics, name)(target, predicted, **options))

    return metric


def _correlation(name: str) -> Callable[[Any, Any], float]:
    def metric(target: Any, predicted: Any) -> float:
        need("scipy", "tasks")
        from scipy import stats

        constant = min(len(set(target)), len(set(predicted))) < 2
        return 0.0 if constant else float(getattr(stats, name)(predicted, target).statistic)

    return metric


REPORTS: dict[str, Callable[[Any, Any], float]] = {
    "f1": _sklearn("f1_score", zero_division=0),
    "f1 macro": _sklearn("f1_score", average="macro", zero_division=0),
    "matthews": _sklearn("matthews_corrcoef"),
    "pearson": _correlation("pearsonr"),
    "spearman": _correlation("spearmanr"),
    "bleu": lambda target, predicted: bleu(predicted, target),
}


def bleu(predicted: Sequence[str], target: Sequence[str]) -> float:
    """sacrebleu's corpus BLEU, 0 to 100."""
    need("sacrebleu", "eval")
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(predicted), [list(target)]).score)


def rouge_l(target: str, predicted: str) -> float:
    """ROUGE-L: 2·LCS/(n + m) over words as SQuAD normalises them; LCS = the longest common
    subsequence.

    >>> rouge_l("the red fox jumped", "a fox then jumped")
    0.6666666666666666
    """
    from ascender.hf.squad_metrics import normalize_answer

    a, b = (normalize_answer(text).split() for text in (target, predicted))
    if not a or not b:
        return float(a == b)
    best = [0] * (len(b) + 1)
    for word in a:
        before = best
        best = [0]
        for j, other in enumerate(b):
            best.append(before[j] + 1 if word == other else max(before[j + 1], best[j]))
    return 2 * best[-1] / (len(a) + len(b))


def chrf(target: str, predicted: str) -> float:
    """sacrebleu's chrF2 of one sentence, 0 to 1: F₂ over character n-grams, n = 1 … 6.

    >>> chrf("a cat", "a cat"), chrf("a cat", "dog")
    (1.0, 0.0)
    """
    need("sacrebleu", "eval")
    import sacrebleu

    return float(sacrebleu.sentence_chrf(predicted, [target]).score) / 100
