"""`ascender bench report`: tables from runs, and documents whose hand-written part stays."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascender.bench import report
from ascender.bench.layer import LAYERS
from ascender.cli import app
from ascender.measure.timing import FORWARD, TRAINING, Row
from ascender.report.blocks import block_names, fill_document

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"torch": "2.13.0", "python": "3.11", "threads": 1, "processor": "x86_64"}


def row(name, n, ratio, work=FORWARD, **more):
    ms = None if ratio is None else 2.0 * ratio
    skipped = "too large" if ratio is None else None
    return Row(name, n, work, ms, ratio, skipped, "stock", 3.0, 1.5, **more)


ROWS = [
    row("stock", 4096, 1.0),
    row("stock", 16384, 1.0, memory_mb=70.0, memory_ratio=1.0, process_mb=300, process_ratio=1.0),
    row("dense", 4096, 12.34),
    row("dense", 16384, None),
    row("folded", 4096, 4.25),
    row("folded", 16384, 3.5, memory_mb=140.0, memory_ratio=2.0, process_mb=600, process_ratio=1.2),
    row("folded", 4096, 2.75, TRAINING),
]


def save(folder, name, study, rows=(), **more):
    path = folder / f"{name}.json"
    made = {"study": study, "command": f"ascender bench {study}", "machine": MACHINE}
    path.write_text(json.dumps({**made, **more, "rows": [asdict(r) for r in rows]}))
    return path


@pytest.fixture
def runs(tmp_path):
    layers = [
        Row("vanilla", 64, TRAINING, 7.0, 1.0, None),
        Row("shared", 64, TRAINING, 21, 3, None),
    ]
    seconds = {"import_torch_s": 1.5, "import_ascender_s": 1.6, "difference_s": 0.1, "goal_s": 0.1}
    models = [
        Row("model_vanilla", 128, TRAINING, 1.0, 1.0, None, tokens_s=2000.0, speed=1.0),
        Row("model_per_head", 128, TRAINING, 1.3, 1.3, None, tokens_s=1500.0, speed=0.75),
    ]
    return [
        save(tmp_path, "model", "model", models),
        save(tmp_path, "attention", "attention", ROWS, causal=False),
        save(tmp_path, "layer", "layer", layers),
        save(tmp_path, "import", "import", **seconds, reached=True),
    ]


def run(*args):
    return CliRunner().invoke(app, ["bench", "report", *map(str, args)], env={"COLUMNS": "300"})


def cells(text):
    """A Markdown table, label → cells."""
    lines = [line.strip("|\n ").split("|") for line in text.splitlines()]
    return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines}


def test_tables_say_what_the_rows_say(runs):
    made = {name: cells(text) for name, (_, text) in report.blocks(runs).items()}
    time = made["attention forward time"]
    assert time["stock SDPA"] == ["2.00 ms", "2.00 ms · 70.0 MB"]
    assert time["dense: the definition"] == ["12.3×", "…"]
    assert time["folded, per head, two τ"] == ["4.25×", "3.50× · 140 MB"]
    assert made["attention forward memory"]["folded, per head, two τ"] == ["2.00× (1.20×)"]
    assert made["attention summary"]["folded, per head, two τ"] == [
        "4.25×", "2.75×", "3.50×", "2.00×",
    ]  # fmt: skip
    assert "stock SDPA" not in made["attention summary"]
    assert made["layer"]["shared geometry"] == ["3.00×"]
    assert made["model training"]["vanilla"] == ["2000/s"]
    assert made["model training"]["ascender, per head"] == ["0.75×"]
    assert made["import"]["difference"] == ["0.100"]
    assert "attention training memory" not in made  # nobody measured it


def test_goals_are_judged_anew(runs):
    goals = cells(report.blocks(runs)["goals"][1])
    assert goals["folded forward, N = 4096, per-head geometry"] == ["≤ 3.00×", "4.25×", "missed"]
    assert goals["folded forward + backward, N = 4096, per-head"] == ["≤ 3.00×", "2.75×", "reached"]
    assert goals["model, training, N = 128, per head"] == ["≥ 0.70×", "0.75×", "reached"]
    assert goals["folded peak memory, N = 16384, per-head"] == ["≤ 2.00×", "2.00×", "reached"]


def test_of_two_runs_the_last_counts_where_it_measured(runs, tmp_path):
    again = save(tmp_path, "again", "attention", [row("folded", 16384, 1.25)])
    made = report.blocks([*runs, again])
    times = cells(made["attention forward time"][1])["folded, per head, two τ"]
    assert times == ["4.25×", "1.25× · 140 MB"]
    kept = cells(made["attention forward memory"][1])["folded, per head, two τ"]
    assert kept == ["2.00× (1.20×)"]
    assert made["commands"][1].count("ascender bench attention") == 2


def test_the_two_clocks_have_tables_of_their_own(runs, tmp_path):
    row_of_wall = Row("shared", 64, TRAINING, 12.0, 1.5, None)
    wall = save(tmp_path, "wall", "layer", [row_of_wall], clock="wall")
    made = report.blocks([*runs, wall])
    assert cells(made["layer"][1])["shared geometry"] == ["3.00×"]
    title, text = made["wall layer"]
    assert title == "Wall clock: Training step: × vanilla layer"
    assert cells(text)["shared geometry"] == ["1.50×"]
    commands = made["commands"][1]
    assert "- `ascender bench layer` (torch 2.13.0, 1 thread, wall clock)\n" in commands
    assert "- `ascender bench layer` (torch 2.13.0, 1 thread)\n" in commands


def test_a_page_has_the_tables_of_both_clocks(runs, tmp_path):
    """Two runs that differ by the clock fill two blocks; until there is one by the wall clock, its
    block says so."""
    page = tmp_path / "page.md"
    page.write_text(
        "CPU\n<!-- bench: layer -->\n<!-- /bench -->\nwall\n<!-- bench: wall layer -->\n"
        "<!-- /bench -->\n<!-- bench: wall goals -->\n<!-- /bench -->\n"
    )
    assert run(*runs, "--into", page).exit_code == 0
    assert page.read_text().count("Not measured by the wall clock yet.") == 2
    rows = [
        Row("vanilla", 64, TRAINING, 8.0, 1.0, None),
        Row("shared", 64, TRAINING, 12, 1.5, None),
    ]
    wall = save(tmp_path, "wall", "layer", rows, clock="wall")
    assert run(*runs, wall, "--into", page).exit_code == 0
    cpu, measured, goals = page.read_text().split("<!-- /bench -->")[:3]
    assert cells(cpu)["shared geometry"] == ["3.00×"]
    assert cells(measured)["shared geometry"] == ["1.50×"]
    assert cells(goals)["layer, training step, shared, N = 64"] == ["≤ 1.50×", "1.50×", "reached"]
    assert "Not measured" not in page.read_text()
    page.write_text("<!-- bench: wall lair -->\n<!-- /bench -->\n")
    assert run(*runs, wall, "--into", page).exit_code == 1


def test_a_disturbed_time_is_marked_until_it_is_measured_again(tmp_path):
    why = "the baseline took 130 s"
    rows = [row("stock", 4096, 1.0, TRAINING), row("folded", 4096, 2.75, TRAINING, disturbed=why)]
    old = save(tmp_path, "old", "attention", rows)
    made = report.blocks([old])
    text = made["attention training time"][1]
    assert cells(text)["folded, per head, two τ"] == ["2.75×†"]
    assert cells(text)["stock SDPA"][0].endswith(" ms")
    assert "† N = 4096, folded, per head, two τ: disturbed by other work" in text
    assert why in text
    assert "2.75×†" in made["attention summary"][1]
    assert "goals" not in made, "no time to judge by"
    again = save(tmp_path, "again", "attention", [row("folded", 4096, 2.5, TRAINING)])
    made = report.blocks([old, again])
    assert "†" not in made["attention training time"][1]
    assert "reached" in made["goals"][1]
    assert "†" in run(old).stdout


def test_the_run_with_a_baseline_of_130_seconds_is_marked():
    path = ROOT / "docs" / "bench" / "attention16.json"
    rows = [r for r in report.read(path)["rows"] if r["work"] == TRAINING and r["ms"]]
    stock = next(r for r in rows if r["candidate"] == "stock")
    assert stock["ms"] < 60_000 or all(r.get("disturbed") for r in rows)


def test_a_document_keeps_what_is_written_by_hand(runs, tmp_path):
    text = (
        "# Mine\n\n<!-- bench: layer -->\nstale\n<!-- /bench -->\n\nWhy | it is so.\n\n"
        "<!-- bench: goals -->\n<!-- /bench -->\nThe end\n"
    )
    path = tmp_path / "mine.md"
    path.write_text(text)
    result = run(*runs, "--into", path)
    assert result.exit_code == 0
    assert result.stdout == f"wrote {path}\n"
    new = path.read_text()
    assert new.startswith("# Mine\n\n<!-- bench: layer -->\n|")
    assert "stale" not in new
    assert "\n<!-- /bench -->\n\nWhy | it is so.\n\n<!-- bench: goals -->\n| goal |" in new
    assert new.endswith("<!-- /bench -->\nThe end\n")
    assert run(*runs, "--into", path).exit_code == 0
    assert path.read_text() == new  # again: the same
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_without_a_document_everything_is_printed(runs):
    out = run(*runs).stdout
    assert out.startswith("## Commands\n\n- `ascender bench model` (torch 2.13.0, 1 thread)\n")
    for title, text in report.blocks(runs).values():
        assert f"## {title}\n\n{text}" in out


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            "<!-- bench: layers -->\n<!-- /bench -->\n",
            ["layers", "goals", "attention summary"],
        ),
        ("<!-- bench: attention training memory -->\n<!-- /bench -->\n", ["training memory"]),
        ("no marks\n", ["asks for nothing", "<!-- bench: NAME -->"]),
    ],
)
def test_a_document_that_asks_for_what_is_not_there_stays(runs, tmp_path, document, words):
    path, good = tmp_path / "bad.md", tmp_path / "good.md"
    path.write_text(document)
    good.write_text("<!-- bench: layer -->\n<!-- /bench -->\n")
    result = run(*runs, "--into", good, "--into", path)
    assert result.exit_code == 1
    message = " ".join(result.stderr.replace("│", " ").split())
    for word in words:
        assert word in message
    assert path.read_text() == document
    assert good.read_text() == "<!-- bench: layer -->\n<!-- /bench -->\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["bad.json: Expecting", "--json"]),
        ("[]", ["it holds a list, no object"]),
        ('{"study": "choose"}', ["study 'choose'", "attention, variants, layer"]),
        (None, ["bad.json"]),
    ],
)
def test_a_file_that_is_no_run(tmp_path, content, words):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    result = run(path)
    assert result.exit_code == 1
    assert result.stdout == ""
    for word in words:
        assert word in " ".join(result.stderr.replace("│", " ").split())


def test_the_benchmark_page_is_what_the_stored_runs_say():
    made = report.blocks(sorted((ROOT / "docs" / "bench").glob("*.json")))
    document = ROOT / "docs" / "benchmark.md"
    text = document.read_text(encoding="utf-8")
    contents = report.contents(made)
    assert fill_document(document, "bench", contents) == text, "ascender bench report … --into"
    first = block_names(text, "bench")[0]
    assert fill_document(document, "bench", {**contents, first: "other\n"}) != text


def test_a_run_says_which_study_and_command_made_it(monkeypatch):
    monkeypatch.setattr("sys.argv", ["ascender", "bench", "layer", "--lengths", "5", "--json"])
    args = ["bench", "layer", "--lengths", "5", "--repeats", "1", "--no-memory", "--json"]
    made = json.loads(CliRunner().invoke(app, args).stdout)
    assert made["study"] == "layer"
    assert made["command"] == "ascender bench layer --lengths 5"
    assert len(made["rows"]) == len(LAYERS)
