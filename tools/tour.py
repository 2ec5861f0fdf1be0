"""Write the file tree of docs/tour.md: every module with the first sentence of its docstring.

python tools/tour.py            # rewrites docs/tour.md between its two marks
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tour.md"
MARK = re.compile(r"(<!-- tour -->\n).*?(<!-- /tour -->)", re.S)
# Folders in reading order; files that are read first come first, the others follow by name.
FOLDERS = ("common", "kernels", "core", "nn", "hf", "tasks", "train", "insight", "lab",
           "report", "measure", "bench", "cli")  # fmt: skip
FIRST = ("visibility", "geometry", "rules", "combine", "neighbours", "flock", "attention",
         "dense", "alignment", "separation", "cohesion", "slot", "module", "base", "run", "loop",
         "suite", "store", "judge", "stats")  # fmt: skip


def sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    text = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s+(?=[A-Z])", text)[0].rstrip(".")


def order(path: Path) -> tuple[int, str]:
    """Files before folders, known ones first."""
    known = FIRST.index(path.stem) if path.stem in FIRST else len(FIRST)
    return known + 100 * path.is_dir(), path.name


def rows(folder: Path, depth: int) -> list[tuple[str, str]]:
    """(indented name, sentence) of a folder, its modules and its templates, and those below."""
    start = folder / "__init__.py"
    lines = [("  " * depth + folder.name + "/", sentence(start) if start.exists() else "")]
    for path in sorted(folder.iterdir(), key=order):
        if path.is_dir() and any(path.glob("*.py")):
            lines += rows(path, depth + 1)
        elif path.suffix in (".py", ".j2") and path.name not in ("__init__.py", "__main__.py"):
            what = sentence(path) if path.suffix == ".py" else "template of the page"
            lines.append(("  " * (depth + 1) + path.name, what))
    return lines


def tree() -> str:
    """The package as a Markdown code block."""
    package = ROOT / "src" / "ascender"
    folders = {path.name for path in package.iterdir() if any(path.glob("*.py"))}
    if folders != set(FOLDERS):
        raise SystemExit(f"FOLDERS of tools/tour.py and src/ascender differ: "
                         f"{', '.join(sorted(folders ^ set(FOLDERS)))}")  # fmt: skip
    listed = [row for name in FOLDERS for row in rows(package / name, 0)]
    width = max(len(name) for name, _ in listed) + 2
    lines = (f"{name:{width}}{what}".rstrip() for name, what in listed)
    return "```\n" + "\n".join(lines) + "\n```\n"


def filled(page: str) -> str:
    """The page with the tree between its marks."""
    return MARK.sub(lambda marks: marks[1] + tree() + marks[2], page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
