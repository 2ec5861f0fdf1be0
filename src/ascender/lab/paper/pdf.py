"""Files made by other programs: main.pdf by xelatex and bibtex, main.docx by pandoc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ascender.common.files import reason

TEX = ("xelatex", "bibtex")
DEBIAN = "texlive-xetex texlive-latex-recommended texlive-fonts-recommended fonts-nanum"
LEFT = (".aux", ".log", ".out", ".bbl", ".blg")  # what TeX leaves behind
OVERFULL = re.compile(r"^Overfull \\hbox \((\d+)\.\d*pt too wide\)", re.M)
MISSING = re.compile(r"^Missing character: There is no (\S+)", re.M)
MUCH = 10  # points over the margin from which it is said
LONGEST = 600  # seconds


def missing_tex() -> list[str]:
    """The programs of TeX that are not installed."""
    return [name for name in TEX if shutil.which(name) is None]


def need_tex() -> None:
    """FileNotFoundError, before any work, where a PDF is wanted and TeX is missing."""
    if missing := missing_tex():
        raise FileNotFoundError(
            f"{missing[0]} is not installed; expected TeX for --pdf (Debian: apt install "
            f"{DEBIAN}), or --no-pdf"
        )


def need_pandoc() -> None:
    if shutil.which("pandoc") is None:
        raise FileNotFoundError(
            "pandoc is not installed; expected it for --docx (Debian: apt install pandoc)"
        )


def build_pdf(source: Path, say: Callable[[str], None]) -> Path:
    """main.tex → main.pdf beside it. ValueError with TeX's own error where it does not compile;
    what is too wide, or a letter that no font has, is said."""
    tex = ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", source.name]
    for i, command in enumerate((tex, ["bibtex", source.stem], tex, tex), 1):
        say(f"{source.stem}.pdf: {command[0]} ({i} of 4)")
        _run(command, source, bibtex_may_warn=command[0] == "bibtex")
    log = source.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
    for line in remarks(log):
        say(f"{source.name}: {line}")
    for path in (*map(source.with_suffix, LEFT), source.with_name("missfont.log")):
        path.unlink(missing_ok=True)
    return source.with_suffix(".pdf")


def remarks(log: str) -> list[str]:
    """What a reader would see in the PDF: text beyond the margin, letters that are missing.

    >>> remarks("Overfull \\\\hbox (23.1pt too wide)\\nMissing character: There is no 가 in font")
    ['text stands 23 pt over the margin in 1 place', "no font has '가'"]
    """
    wide = [int(pt) for pt in OVERFULL.findall(log) if int(pt) >= MUCH]
    places = f"{len(wide)} place{'s' if len(wide) > 1 else ''}"
    said = [f"text stands {max(wide)} pt over the margin in {places}"] if wide else []
    signs = dict.fromkeys(MISSING.findall(log))
    return said + ([f"no font has {', '.join(map(repr, signs))}"] if signs else [])


def build_docx(source: Path, bibliography: str) -> Path:
    """paper.md → paper.docx beside it."""
    to = source.with_suffix(".docx")
    _run(["pandoc", source.name, "--from=markdown+east_asian_line_breaks", "--citeproc",
          f"--bibliography={bibliography}", "--output", to.name], source)  # fmt: skip
    return to


def _run(command: Sequence[str], source: Path, bibtex_may_warn: bool = False) -> None:
    # SOURCE_DATE_EPOCH: the same sources give the same PDF
    own = {
        **os.environ,
        "SOURCE_DATE_EPOCH": "0",
        "FORCE_SOURCE_DATE": "1",
        "max_print_line": "1000",
    }
    try:
        done = subprocess.run(
            command, cwd=source.parent, env=own, capture_output=True, timeout=LONGEST,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"{command[0]} of {source.name} took over {LONGEST} s; expected less"
        ) from None
    if done.returncode > (1 if bibtex_may_warn else 0):
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        raise ValueError(
            f"{command[0]} cannot make {source.name}: {_error(text)}; expected a file that compiles"
        )


def _error(text: str) -> str:
    """TeX's error and the line it is in; of other programs the last line."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("!")), None)
    if at is None:
        return reason(lines[-1] if lines else "it says nothing")
    where = next((line for line in lines[at:] if line.startswith("l.")), "")
    return reason(f"{lines[at].lstrip('! ')} {where}")
