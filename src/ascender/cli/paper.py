"""`ascender paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascender.cli.terminal import DataDir, Json, check_out, note, print_json, progress

app = typer.Typer()


@app.command(epilog="Example: ascender paper results --out paper --lang both")
def paper(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder of `lab run --out`, the store, or a report."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the paper.")] = Path("paper"),
    lang: Annotated[str, typer.Option(help="en (main.tex), ko (main.ko.tex) or both.")] = "en",
    text: Annotated[
        Path | None,
        typer.Option(help="The author's title, abstract, conclusion and captions, a YAML file."),
    ] = None,
    template: Annotated[
        bool,
        typer.Option(
            "--template", help="Only write an empty file for --text, with the claims of DIR."
        ),
    ] = False,
    pdf: Annotated[
        bool | None,
        typer.Option(
            "--pdf/--no-pdf",
            help="Build the PDF with xelatex, or do not; default: where TeX is installed.",
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Also paper.md.")] = False,
    docx: Annotated[
        bool, typer.Option("--docx", help="Also paper.docx, by pandoc, and paper.md.")
    ] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Write the paper of stored trials: LaTeX and PDF, figures, tables, every number's source.

    Its tables and figures are those of the draft; a number that is not in the rows is an error.
    --text adds the author's own sentences, each beside the verdict of the claim that it makes.
    """
    from ascender import lab

    if template:
        _template(folder, text or Path("draft.yaml"))
        return
    if folder is None:
        raise ValueError("DIR is missing; expected a folder of trials, or --template")
    check_out(out, folder=True)
    with progress() as say:
        paths = lab.write_paper(
            folder, out, lang=lang, text_file=text, with_pdf=pdf, with_markdown=markdown,
            with_docx=docx, data_dir=data_dir, say=say,
        )  # fmt: skip
    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    made = [path for path in paths if path.suffix in (".pdf", ".docx") and path.parent == out]
    sources = [path for path in paths if path.suffix == ".tex"]
    typer.echo(f"wrote {len(paths)} files to {out}; open {', '.join(map(str, made or sources))}")


def _template(folder: Path | None, path: Path) -> None:
    """An empty author's file, never over one that is there."""
    from ascender.common.files import write
    from ascender.lab.bundle import claimed
    from ascender.lab.paper.author import template

    if path.exists():
        raise ValueError(f"{path} exists; expected --text with a new name")
    if folder is not None and not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; expected one of `ascender lab run --out`")
    write(path, template(claimed(folder)[1] if folder is not None else ()))
    note(f"wrote {path}; fill it in, then: ascender paper {folder or 'DIR'} --text {path}")
