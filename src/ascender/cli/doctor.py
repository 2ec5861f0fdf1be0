"""`ascender doctor`."""

from __future__ import annotations

import typer
from rich.markup import escape
from rich.table import Table

from ascender.cli.terminal import Json, print_json, show

app = typer.Typer()


@app.command(epilog="Example: ascender doctor")
def doctor(as_json: Json = False) -> None:
    """Which kernels run here and why, what is installed, and how to get what is missing."""
    from ascender.measure import doctor as measure

    report = measure.doctor()
    if as_json:
        print_json(report)
        return
    table = Table(title="This machine", show_header=False)
    kernels = report["kernels"]
    path = "native C kernels" if kernels["native"] else kernels["without"]
    table.add_row("attention on the CPU", escape(path))
    table.add_row("why", escape(kernels["why"]))
    table.add_row("C compiler", escape(kernels["compiler"] or "none"))
    table.add_row("cache", escape(kernels["cache"]))
    for name, value in report["machine"].items():
        text = ", ".join(value) if isinstance(value, list) else str(value or "none")
        table.add_row(name, escape(text))
    for name, missing in report["extras"].items():
        text = missing if isinstance(missing, str) else f"missing: {', '.join(missing)}"
        table.add_row(f"extra [{name}]".replace("[", r"\["), escape(text))
    show(table)
    for line in report["advice"]:
        typer.echo(line)
