"""The tasks at the scale of two cores: sizes, steps and options, the same for every suite.

Two layers, 64 wide, four heads, as in the first trials; a run of vanilla takes about half a minute.
Learning rates: experiments/settings.py.
"""

TASKS = {
    "fewshot-digits": {"steps": 2500, "batch": 32, "every": 250},
    "distinct": {"steps": 600, "batch": 32, "every": 100},
    "grouping": {"steps": 600, "batch": 32, "every": 100},
    "recall": {
        "steps": 1000, "batch": 32, "every": 100, "options": {"length": 32, "pairs": [4, 8]},
    },
    "listops-short": {"steps": 1000, "batch": 32, "every": 100},
    "listops": {
        "steps": 400, "batch": 16, "every": 100,
        "options": {"min_length": 100, "max_length": 200, "max_depth": 6, "max_args": 5},
    },
    "digits": {"steps": 600, "batch": 32, "every": 100},
    "pylib": {"steps": 500, "batch": 16, "every": 100, "options": {"length": 128, "blocks": 200}},
    "sst2": {
        "steps": 600, "batch": 32, "every": 100, "options": {"length": 64, "tokenizer": "bpe:2048"},
    },
    "mrpc": {
        "steps": 300, "batch": 32, "every": 50, "options": {"length": 96, "tokenizer": "bpe:2048"},
    },
    "lra-text": {"steps": 400, "batch": 16, "every": 100, "options": {"length": 256, "held": 500}},
    "fashion-mnist": {"steps": 400, "batch": 32, "every": 100},
}  # fmt: skip
