"""The tasks at a scale for two CPU cores: sizes, steps and options, the same for every suite.

Two layers of width 64 with four heads, as in the first trials; a vanilla run takes about half a
minute. Learning rates are those of experiments/tune_rates.py: vanilla's best for every attention
without rules, ASCender's best for its variants.
"""

from collections.abc import Iterable, Sequence
from math import ceil

from ascender.lab.suite import seeded
from ascender.lab.verdict import DecisionRule
from ascender.train import Run, variant

TASKS = {
    "fewshot-digits": {
        "steps": 1500, "batch": 64, "every": 125, "options": {"unlabelled": 4},
    },
    "distinct": {"steps": 600, "batch": 32, "every": 100},
    "grouping": {"steps": 600, "batch": 32, "every": 50},
    "recall": {
        "steps": 1000, "batch": 32, "every": 100,
        "options": {"length": 32, "pairs": [2, 4, 8], "keys": 16},
    },
    "listops-short": {"steps": 500, "batch": 32, "every": 50},
    "listops": {
        "steps": 300, "batch": 16, "every": 50,
        "options": {"min_length": 60, "max_length": 120, "max_depth": 6, "max_args": 5},
    },
    "digits": {"steps": 400, "batch": 32, "every": 50},
    "pylib": {"steps": 400, "batch": 16, "every": 50, "options": {"length": 128, "blocks": 200}},
    "sst2": {
        "steps": 400, "batch": 32, "every": 50, "options": {"length": 48, "tokenizer": "bpe:2048"},
    },
    "mrpc": {
        "steps": 200, "batch": 32, "every": 50, "options": {"length": 96, "tokenizer": "bpe:2048"},
    },
    "lra-text": {"steps": 400, "batch": 16, "every": 50, "options": {"length": 256, "held": 500}},
    "fashion-mnist": {"steps": 400, "batch": 32, "every": 100},
}  # fmt: skip
LONG = {
    **TASKS["pylib"],
    "steps": 1200,
    "batch": 2,
    "every": 100,
    "options": {"length": 1024, "blocks": 50},
}
RATES = {  # (vanilla, ASCender); the lower of equals
    "fewshot-digits": (1e-3, 3e-3), "distinct": (1e-3, 1e-3), "grouping": (3e-3, 3e-3),
    "recall": (1e-3, 1e-3), "listops-short": (3e-3, 3e-3), "listops": (3e-3, 1e-2),
    "digits": (3e-3, 3e-3), "pylib": (3e-3, 3e-3), "sst2": (3e-3, 3e-3), "mrpc": (1e-3, 1e-3),
    "lra-text": (3e-4, 3e-3), "fashion-mnist": (3e-3, 3e-3),
}  # fmt: skip
GOALS = {"fewshot-digits": 0.9, "distinct": 0.45, "grouping": 0.9, "recall": 0.9, "digits": 0.9}
LEANING = ("fewshot-digits", "distinct", "grouping", "pylib")  # Cliff's δ ≥ ½ after four seeds
RULED = ("ascender", "shuffled")
RULE = DecisionRule(alpha=0.05, smallest=0.005)


def same_keys(far: int, window: int, causal: bool = True) -> dict[str, str]:
    """Variants that see as many keys a query as flock scope with these sizes, |F|, by what chooses
    them. Positions and further pieces go behind: f"{name}+rope".

    BigBird has one global, one random and one block on each side (causal: before) beside its own,
    of the smallest length with which a query sees |F| keys or more, on average over a block.
    """
    size = f"far={far}+window={window}"
    F = far + (1 if causal else 2) * window + 1
    blocks, own = (3, 0.5) if causal else (6, 0.0)  # causal: on average half of the own block
    block = ceil((F - own) / (blocks + own))
    return {
        "index": f"flock+{size}",
        "index, no rules": f"flock+{size}+rules=none",
        "index, index loss": f"flock-index-loss+{size}",
        "index, index loss, no rules": f"flock-index-loss+{size}+rules=none",
        "random": f"flock-random+{size}",
        "random, no rules": f"flock-random+{size}+rules=none",
        "base scores": f"flock-top-scores+{size}",
        "base scores, no rules": f"flock-top-scores+{size}+rules=none",
        "base scores, no rules, no term": f"flock-top-scores+{size}+rules=none+affinity_term=False",
        "base scores, no window": f"vanilla+topk+size={F}",
        "window": f"longformer+window={far + window if causal else window + ceil(far / 2)}",
        "blocks": f"bigbird+block={block}+random=1",
    }


def goals(tasks: Iterable[str]) -> dict[str, float]:
    """The goals of some tasks, of those that have one."""
    tasks = list(tasks)
    return {name: goal for name, goal in GOALS.items() if name in tasks}


def tuned(tasks: Iterable[str], variants: Sequence[str], seeds: int | range = 5) -> tuple[Run, ...]:
    """task × variant × seed, seed by seed; variants with rules have their own learning rate."""
    cells = [
        Run.of(
            name, variant=v, rate=RATES[name][variant(v).attention in RULED],
            **TASKS[name],
        )
        for name in tasks
        for v in variants
    ]  # fmt: skip
    return seeded(cells, seeds)
