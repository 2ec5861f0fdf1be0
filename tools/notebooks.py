"""Run the notebooks of docs/notebooks and store their outputs.

python tools/notebooks.py               # all of them
python tools/notebooks.py five_tokens   # one

What would differ on another machine is not stored: paths, times of execution, versions.
"""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "notebooks"
SECONDS = 1800  # at most, a cell
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path) -> Any:
    """The notebook with fresh outputs; run in an empty folder, with pictures as PNG."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    with tempfile.TemporaryDirectory() as here:
        client = NotebookClient(
            notebook, timeout=SECONDS, resources={"metadata": {"path": here}}, kernel_name="python3"
        )
        client.execute()
    return cleaned(notebook)


def joined(outputs: Iterable[Any]) -> list[Any]:
    """Printed lines that follow each other as one output."""
    kept: list[Any] = []
    for output in outputs:
        if kept and output.output_type == kept[-1].output_type == "stream":
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def cleaned(notebook: Any) -> Any:
    """Without what differs from run to run."""
    notebook.metadata.clear()
    notebook.metadata.update(METADATA)
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = joined(o for o in cell.outputs if o.get("name") != "stderr")
            for output in cell.outputs:
                output.pop("metadata", None)
                if "data" in output:
                    output["metadata"] = {}
                    if "image/png" in output["data"]:
                        output["data"] = {"image/png": output["data"]["image/png"]}
    return notebook


def main(names: list[str]) -> None:
    import nbformat

    for name in names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        path = FOLDER / f"{name}.ipynb"
        nbformat.write(executed(path), path)
        print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size // 1024} KB)")


if __name__ == "__main__":
    main(sys.argv[1:])
