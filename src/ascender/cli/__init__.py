"""The `ascender` command: a file for each group of commands.

Results go to stdout (with --json: JSON and nothing else), progress and notes to stderr. Errors
of all commands are handled in errors.py.
"""

from __future__ import annotations

from typing import Annotated

import ascender

try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the ascender command needs {missing.name}; expected: "
        'pip install "ascender-attention[cli]"'
    ) from None

from ascender.cli import bench, demo, doctor, lab, lists, models, paper, play, retrofit, train
from ascender.cli.errors import Commands

app = typer.Typer(
    cls=Commands,
    help="ASCender: attention with alignment, separation and cohesion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(demo.app)
app.add_typer(doctor.app)
app.add_typer(train.app)
app.add_typer(models.app)
app.add_typer(play.app)
app.add_typer(retrofit.app)
app.add_typer(lab.app, name="lab")
app.add_typer(paper.app)
app.add_typer(bench.app, name="bench")
app.add_typer(lists.app, name="list")


def main() -> None:
    """Entry point."""
    app()


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"ascender {ascender.__version__}")
        raise typer.Exit
    return wanted


@app.callback(epilog="Example: ascender demo --out out")
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", envvar="ASCENDER_DEBUG", show_envvar=True,
            help="Show the traceback of an error.",
        ),
    ] = False,
) -> None:  # fmt: skip
    """ASCender: attention with alignment, separation and cohesion."""
