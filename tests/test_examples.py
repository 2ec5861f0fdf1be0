"""Every example runs from the command line, as far as three steps take it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = [
    "causal_lm", "masked_lm", "sequence_classification", "token_classification", "translation",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_three_steps(script):
    for module in ("accelerate", "sklearn"):
        pytest.importorskip(module)
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{script}.py"), "--steps", "3"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    numbers = re.findall(r"^(before|after): +([\d.]+)", run.stdout, re.M)
    assert [name for name, _ in numbers] == ["before", "after"]
