"""The notebooks: stored with outputs that fit any machine, and they still run."""

import ast
import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
MACHINE = re.compile(r"/(?:home|root|tmp|work|Users|usr|opt)/|[A-Z]:\\\\|site-packages")
LARGEST = 400_000  # bytes


def cells(path, kind):
    return [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == kind]


def texts(cell):
    """What the outputs of a cell say."""
    for output in cell["outputs"]:
        data = output.get("data", {})
        yield from (output.get("text", ""), data.get("text/plain", ""))


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["claim", "five_tokens", "sparse_model"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs(path):
    assert path.stat().st_size < LARGEST
    code = cells(path, "code")
    for cell in code:
        ast.parse("".join(cell["source"]))
        assert cell["metadata"] == {}
        assert [o["output_type"] for o in cell["outputs"] if o["output_type"] == "error"] == []
        for text in texts(cell):
            assert not MACHINE.search("".join(text))
            assert "Figure size" not in "".join(text), "a figure is stored as text"
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert sum(bool(cell["outputs"]) for cell in code) > 2
    assert any("image/png" in o.get("data", {}) for c in code for o in c["outputs"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    """Its own assertions hold, and what it prints has the shape that is stored."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    again = runpy.run_path(str(ROOT / "tools" / "notebooks.py"))["executed"](path)
    stored = cells(path, "code")
    fresh = [cell for cell in again.cells if cell.cell_type == "code"]
    for old, new in zip(stored, fresh, strict=True):
        kinds = [sorted(o.get("data", {"text/plain": ""})) for o in old["outputs"]]
        assert [sorted(o.get("data", {"text/plain": ""})) for o in new.outputs] == kinds
