"""The roofline table of docs/gpu.md is what tools/gpu_roofline.py computes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_that_of_the_tool():
    command = [sys.executable, str(ROOT / "tools/gpu_roofline.py")]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert table.count("\n") > 6
    assert table.strip() in (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
