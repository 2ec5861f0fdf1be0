"""From stored trials to a folder that compiles (`ascender paper`, lab.write_paper).

    OUT/main.tex  main.ko.tex        article, xelatex; main.pdf where TeX is installed
    OUT/figures/figure1.pdf …        and .svg, .png; Korean: figure1.ko.pdf
    OUT/references.bib               the sources
    OUT/numbers.csv                  every printed number, its value in full and its trials
    OUT/tables/NAME.csv              the rows of every table
    OUT/paper.md  paper.docx         on demand
    OUT/written.json                 what was written, so that a file that was edited is not lost

Everything is built in a temporary folder beside OUT and then moved: after an error nothing has
changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from ascender.common.files import Damaged, read_json, temporary_path, write
from ascender.lab.bundle import claimed
from ascender.lab.paper import pdf
from ascender.lab.paper.appendix import appendix
from ascender.lab.paper.author import AuthorText, read_author
from ascender.lab.paper.author_check import unsupported
from ascender.lab.paper.body import body, opening
from ascender.lab.paper.body_strings import BODY
from ascender.lab.paper.document import (
    AppendixStart,
    Document,
    cited,
    labels_of,
    marked_up,
    referred,
    text,
)
from ascender.lab.paper.facts import check, rows_of_numbers, shown
from ascender.lab.paper.latex import latex
from ascender.lab.paper.markdown import markdown
from ascender.lab.paper.material import Material, material
from ascender.lab.paper.paper_figures import blocks, drawings, save
from ascender.lab.paper.summary import findings
from ascender.lab.reports.suite_results import DRAWS
from ascender.report.strings import languages
from ascender.report.table import as_csv, csv_text

WRITTEN = "written.json"
BIBLIOGRAPHY = "references.bib"
ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.M)
Say = Callable[[str], None]


def build(
    folder: Path, out: Path, lang: str, text_file: Path | None = None, *,
    with_pdf: bool | None = None, with_markdown: bool = False, with_docx: bool = False,
    data_dir: str | None = None, draws: int = DRAWS, say: Say = print,
) -> list[Path]:  # fmt: skip
    """The files of the paper (lab.write_paper)."""
    languages(lang)
    if with_pdf:
        pdf.need_tex()
    if with_docx:
        pdf.need_pandoc()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; expected one of `ascender lab run --out`")
    old = _written(out)
    own = AuthorText() if text_file is None else read_author(text_file, claimed(folder)[1])
    say(f"reading {folder}")
    of = material(folder, draws, say)
    new = temporary_path(out.resolve())
    try:
        document = _document(of, own, new, lang, data_dir, say)
        _texts(document, new, lang, with_markdown or with_docx)
        _programs(new, lang, with_pdf, with_docx, say)
        paths = _moved(new, out, old)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    if wrong := unsupported(of, own, findings(of)):
        say(f"the measurements do not support {len(wrong)} of the author's sentences (listed in "
            f"the paper): {', '.join(one.where for one in wrong)}")  # fmt: skip
    return paths


def _document(
    of: Material, own: AuthorText, new: Path, lang: str, data_dir: str | None, say: Say
) -> Document:
    """The document, checked, with its figures drawn."""
    found = findings(of)
    say("drawing figures")
    drawn = drawings(of, data_dir)
    figures = {name: blocks(of, drawn, name) for name in drawn}
    say("writing sentences and tables")
    if own.sentences():
        none = AuthorText()
        of.facts.shown = shown((*opening(of, found, none), *body(of, found, none, figures)))
    document = Document(
        marked_up(own.title) if own.title else text(BODY["title"]), own.authors,
        tuple(opening(of, found, own)),
        (*body(of, found, own, figures), AppendixStart(), *appendix(of, found)),
    )  # fmt: skip
    checked(document, of, lang)
    save(drawn, new, lang, say)
    return document


def checked(document: Document, of: Material, lang: str) -> None:
    """ValueError where a number is not in the rows, a label is there twice, or a reference leads
    nowhere."""
    for each in languages(lang):
        check(document.every, of.facts, each)
    labels = labels_of(document.every)
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise ValueError(f"label = {twice[0]!r} is there twice; expected unique labels")
    for label in referred(document.every):
        if label not in labels:
            raise ValueError(f"[#{label}] leads nowhere; expected one of {', '.join(labels)}")
    known = ENTRY.findall(_bibliography())
    for key in cited(document.every):
        if key not in known:
            raise ValueError(
                f"[@{key}] is not in {BIBLIOGRAPHY}; expected one of {', '.join(known)}"
            )


def _bibliography() -> str:
    """references.bib of the checkout, or of the installed package."""
    here = Path(__file__).resolve().parent
    places = [here.parents[3] / "docs" / BIBLIOGRAPHY, here / BIBLIOGRAPHY]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"no {BIBLIOGRAPHY} in the package; expected {places[-1]}")
    return path.read_text(encoding="utf-8")


def _texts(document: Document, new: Path, lang: str, with_markdown: bool) -> None:
    for each in languages(lang):
        suffix = ".ko" if each == "ko" else ""
        write(new / f"main{suffix}.tex", latex(document, each))
        if with_markdown:
            write(new / f"paper{suffix}.md", markdown(document, each))
    write(new / BIBLIOGRAPHY, _bibliography())
    rows = rows_of_numbers(document.every)
    head = ("where", "printed", "values", "trials")
    write(new / "numbers.csv", csv_text(head, ([row[name] for name in head] for row in rows)))
    for block in document.tables():
        write(new / "tables" / f"{block.table.name}.csv", as_csv(block.table))


def _programs(new: Path, lang: str, with_pdf: bool | None, with_docx: bool, say: Say) -> None:
    """What TeX and pandoc make."""
    missing = pdf.missing_tex()
    if missing and with_pdf is None:
        say(f"no PDF: {missing[0]} is not installed (Debian: apt install {pdf.DEBIAN})")
    for each in languages(lang):
        suffix = ".ko" if each == "ko" else ""
        if with_pdf or (with_pdf is None and not missing):
            pdf.build_pdf(new / f"main{suffix}.tex", say)
        if with_docx:
            say(f"paper{suffix}.docx: pandoc")
            pdf.build_docx(new / f"paper{suffix}.md", BIBLIOGRAPHY)


# --- into its place


def _written(out: Path) -> dict[str, str]:
    """Hashes of an earlier paper's files. ValueError where OUT has something else, or a file of it
    was edited."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"out = {out} is a file; expected a folder")
    if not out.exists() or not any(out.iterdir()):
        return {}
    path = out / WRITTEN
    if not path.exists():
        raise ValueError(f"out = {out} is not empty; expected a new folder, or one of a paper")
    files = read_json(path, "what ascender paper wrote", files=dict)["files"]
    for name, known in files.items():
        if not isinstance(known, str) or ".." in Path(name).parts or Path(name).is_absolute():
            raise Damaged(path, f"{name!r} is no file of a paper", "what ascender paper wrote")
        if (out / name).exists() and _hash(out / name) != known and not name.endswith(".pdf"):
            raise ValueError(
                f"{out / name} was edited; expected a new --out, or that it is moved away"
            )
    return dict(files)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _moved(new: Path, out: Path, old: Iterable[str]) -> list[Path]:
    """All files into OUT; what an earlier paper had and this one has not is removed, other files
    stay."""
    names = sorted(p.relative_to(new).as_posix() for p in new.rglob("*") if p.is_file())
    hashes = {name: _hash(new / name) for name in names}
    write(new / WRITTEN, json.dumps({"files": hashes}, indent=1) + "\n")
    if not out.exists():
        new.rename(out)
        return [out / name for name in (*names, WRITTEN)]
    for name in (*names, WRITTEN):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).replace(out / name)
    for name in set(old) - set(names):
        (out / name).unlink(missing_ok=True)
    return [out / name for name in (*names, WRITTEN)]
