"""The documents agree with the code: what can drift is executed."""

import ast
import doctest
import importlib
import itertools
import re
import runpy
import shlex
from pathlib import Path

import jaxtyping
import pytest

import ascender

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "ascender"
FEWEST = 80  # rows of the notation table, at least
KEY = re.compile(r"\[([A-Za-z]+\d{2,4}[a-z]?)\]")
ENTRY = re.compile(r"^@\w+\{([^,\s]+),(.*?)^\}", re.M | re.S)
BLOCK = re.compile(r"^```(?:python|pycon)\n(.*?)^```", re.M | re.S)
SHELL = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
BIBTEX = re.compile(r"^```bibtex\n(.*?)^```", re.M | re.S)
READMES = ("README.md", "README.ko.md")
README_LINES = 200  # at most
# What Korean strings say for a term, and the word for another meaning of it that crept in.
KOREAN = {"어텐션": r"주의(?!하|할|사항|깊)", "쿼리": "질의"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text):
    """(symbol, name in code, shape, file) of each row of a Markdown table."""
    table = [line for line in text.splitlines() if line.startswith("|")][2:]
    cells = (re.split(r"(?<!\\)\|", line)[1:-1] for line in table)
    return [tuple(cell.strip().strip("`") for cell in row) for row in cells]


def resolve(name, file):
    """Raise where the file has no such name: `file:local`, or a dotted attribute or field."""
    if ":" in name:
        assert name.startswith(file + ":"), f"{name} is not in {file}"
        nodes = ast.walk(ast.parse(read(SRC / file)))
        found = {getattr(node, f, None) for node in nodes for f in ("id", "arg", "attr", "name")}
        assert name.split(":")[1] in found, f"{name} does not occur"
        return
    parts = ("ascender", *Path(file).with_suffix("").parts)
    module = ".".join(parts).removesuffix(".__init__")
    assert name.startswith(module + "."), f"{name} is not in {file}"
    thing = importlib.import_module(module)
    for part in name.removeprefix(module + ".").split("."):
        fields = getattr(thing, "__dataclass_fields__", {})
        thing = fields[part] if part in fields else getattr(thing, part)


NOTATION = rows(read("docs/notation.md"))


@pytest.mark.parametrize("row", NOTATION, ids=lambda row: row[1])
def test_notation_row_resolves(row):
    _, name, _, file = row
    assert all(row)
    resolve(name, file)


def test_notation_is_whole():
    assert len(NOTATION) >= FEWEST
    assert len({row[0] for row in NOTATION}) == len(NOTATION), "a symbol stands twice"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ascender.core.visibility.Visibility.nowhere", "core/visibility.py"),
        ("ascender.core.visibility.Visibility.p", "core/geometry.py"),
        ("ascender.core.visibility", "core/visibility.py"),
        ("core/rules/cohesion.py:nowhere", "core/rules/cohesion.py"),
        ("core/rules/cohesion.py:c", "core/rules/alignment.py"),
    ],
)
def test_a_made_up_row_does_not_resolve(name, file):
    with pytest.raises((AssertionError, AttributeError)):
        resolve(name, file)


def unmatched(text, bib):
    """Keys cited and not listed, keys listed and not cited."""
    cited, listed = set(KEY.findall(text)), {key for key, _ in ENTRY.findall(bib)}
    return cited - listed, listed - cited


def test_citations_and_references_match():
    pages = sorted((ROOT / "docs").rglob("*.md"))
    text, bib = "\n".join(map(read, pages)), read("docs/references.bib")
    assert unmatched(text, bib) == (set(), set())
    assert len(ENTRY.findall(bib)) == bib.count("\n@") > 0
    for key, body in ENTRY.findall(bib):
        for field in ("author", "title", "year"):
            assert re.search(rf"^\s*{field}\s*=", body, re.M), f"{key} has no {field}"
    assert unmatched(text + "[nobody1999]", bib) == ({"nobody1999"}, set())
    assert unmatched(text, bib + "\n@misc{unread2001,\n}\n") == (set(), {"unread2001"})


def examples(text):
    """(failed, attempted) of the examples in a document's Python blocks, in one namespace."""
    code = "\n".join(BLOCK.findall(text))
    test = doctest.DocTestParser().get_doctest(code, {}, "document", None, 0)
    return tuple(doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test))[:2]


EXAMPLES = sorted(p for p in SRC.rglob("*.py") if re.search(r"^\s*>>> ", read(p), re.M))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_the_code(file):
    module = ".".join(file.relative_to(SRC.parent).with_suffix("").parts)
    result = doctest.testmod(importlib.import_module(module), optionflags=FLAGS)
    assert result.failed == 0 < result.attempted


DOCS = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")])
PAGES = [*READMES, *(str(path.relative_to(ROOT)) for path in DOCS)]
NEEDS = {"docs/models.md": ("accelerate", "transformers")}
NEEDS |= dict.fromkeys(
    (*READMES, "docs/retrofit.md", "docs/clusters.md", "docs/howto/sparse_model.md"),
    ("transformers",),
)
NEEDS |= {"docs/insight.md": ("transformers", "sklearn", "scipy")}


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(read(page))])
def test_examples_in_the_pages(page, monkeypatch, tmp_path):
    """Every Python block is an example, and every example runs after those above it. Without the
    checks of shapes: what a reader runs."""
    for module in NEEDS.get(page, ()):
        pytest.importorskip(module)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    monkeypatch.chdir(tmp_path)
    text = read(page)
    assert all(">>>" in block for block in BLOCK.findall(text))
    assert examples(text) == (0, len(re.findall(r"^\s*>>> ", text, re.M)))


@pytest.mark.parametrize("page", READMES)
def test_a_readme_is_short(page):
    assert len(read(page).splitlines()) <= README_LINES


def test_the_tour_lists_the_files():
    """docs/tour.md is what `python tools/tour.py` writes."""
    tour = runpy.run_path(str(ROOT / "tools" / "tour.py"))
    page = read("docs/tour.md")
    assert tour["filled"](page) == page, "expected the output of `python tools/tour.py`"
    assert tour["filled"](page.replace("visibility.py", "nowhere.py")) == page


def test_a_wrong_example_fails():
    assert SRC / "core/neighbours.py" in EXAMPLES
    assert examples("```python\n>>> 1 + 1\n3\n>>> 2 + 2\n4\n```\n") == (1, 2)


def test_every_task_and_variant_has_its_place_in_the_pages():
    from ascender.tasks import TASKS
    from ascender.train import VARIANTS

    for page, names in (("docs/tasks.md", TASKS), ("docs/training.md", VARIANTS)):
        said = {word for span in re.findall(r"`([^`]+)`", read(page)) for word in span.split()}
        missing = {name for name in names if name not in said}
        assert not missing, f"{page} does not name {missing}"


def commands(text):
    """The words of each command in a document's shell blocks, in order."""
    for line in "".join(SHELL.findall(text)).splitlines():
        words = shlex.split(line, comments=True)
        for is_command, command in itertools.groupby(words, "&&".__ne__):
            if is_command:
                yield list(command)


def unmade(text):
    """Folders under runs/ and out/ that a command reads and that none before it has written."""
    made, missing = [], []
    for words in commands(text):
        paths = [word for word in words if word.startswith(("runs/", "out/"))]
        written = [word for option, word in itertools.pairwise(words) if option == "--out"]
        missing += [path for path in paths if path not in (*made, *written)]
        made += written
    return missing


TRAINED = [*READMES, "docs/command_line.md", "docs/tutorial.md", "docs/tutorial.ko.md"]


@pytest.mark.parametrize("page", [*TRAINED, *(page for page in PAGES if "/howto/" in page)])
def test_commands_read_what_earlier_ones_wrote(page):
    assert unmade(read(page)) == []
    used = [word for words in commands(read(page)) for word in words if word.startswith("runs/")]
    assert len(used) > len(set(used)) or page not in TRAINED


def test_a_run_that_nobody_trained_is_found():
    train, look = "ascender train --out runs/a0  # ; runs/a1", "ascender insight runs/a0 runs/a1"
    assert unmade(f"```sh\n{train}\n{look}\n```\n") == ["runs/a1"]
    assert unmade(f"```sh\n{look} && {train}\n```\n") == ["runs/a0", "runs/a1"]


@pytest.mark.parametrize("page", [page for page in PAGES if SHELL.search(read(page))])
def test_commands_are_those_of_the_command_line(page):
    """Every `ascender` command of the page has a name and options that there are."""
    typer = pytest.importorskip("typer")
    from ascender.cli import app

    for words in (words for words in commands(read(page)) if words[0] == "ascender"):
        command, rest = typer.main.get_command(app), words[1:]
        while hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(words[1], rest)


def test_the_page_of_the_command_line_names_every_command():
    typer = pytest.importorskip("typer")
    from ascender.cli import app

    rows = dict(re.findall(r"^\| `ascender (\w+)(.*?) \|", read("docs/command_line.md"), re.M))
    commands = typer.main.get_command(app).commands
    assert set(rows) == set(commands)
    for name, command in commands.items():
        assert set(re.findall(r"[\w-]+", rows[name])) == set(getattr(command, "commands", ()))


KOREAN_TEXTS = sorted(
    path
    for path in [*SRC.rglob("*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"),
                 *ROOT.glob("experiments/*.py")]
    if re.search("[가-힣]", read(path))
)  # fmt: skip


@pytest.mark.parametrize("file", KOREAN_TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_korean_has_one_word_for_a_term(file):
    text = read(file)
    for term, other in KOREAN.items():
        found = re.search(f".*{other}.*", text)
        assert not found, f"{found[0].strip()!r}; expected {term}"


def test_a_rule_muted_everywhere_is_muted_in_every_layer_in_korean_too():
    from ascender.insight.page.strings import STRINGS

    english, korean = STRINGS["moved_heads"]
    assert "everywhere" in english
    assert "모든 층" in korean


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_korean_commands_are_the_english_ones(page):
    pages = page, page.replace(".md", ".ko.md")
    english, korean = ([" ".join(words) for words in commands(read(page))] for page in pages)
    assert [command.replace(" --lang ko", "") for command in korean] == english


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/definition.md"])
def test_a_korean_page_has_the_headings_tables_and_code_of_the_english_one(page):
    english, korean = read(page), read(page.replace(".md", ".ko.md"))
    for counted in (r"^#+ (?:\d+\.)?", r"^\|", r"^- ", r"^\d+\. ", r"^    \S", r"!\["):
        assert re.findall(counted, korean, re.M) == re.findall(counted, english, re.M), counted
    code = [sorted(re.findall(r"`([^`\n]*[a-z_]{4}[^`\n]*)`", text)) for text in (english, korean)]
    assert code[0] == code[1]
    blocks = [re.sub(r" *#.*", "", "".join(BLOCK.findall(text))) for text in (english, korean)]
    assert blocks[0] == blocks[1]


NUMBER = re.compile(r"[+−]?\d+(?:[.,]\d+)*")
LAB_BLOCK = re.compile(r"<!-- lab: (.*?) -->\n(.*?)<!-- /lab -->", re.S)


def table_numbers(pages):
    """The numbers of the table rows in each marked block of the pages, by the block's name."""
    blocks = [block for page in pages for block in LAB_BLOCK.findall(read(page))]
    tables = {name: re.findall(r"^\|.*\|$", text, re.M)[2:] for name, text in blocks}
    return {name: [NUMBER.findall(row) for row in table] for name, table in tables.items()}


def test_the_korean_results_have_the_english_numbers():
    """The slow test of tests/lab compares every block with the stored trials; this one is fast."""
    korean = table_numbers(["docs/results.ko.md"])
    english = table_numbers(["docs/results.md", "docs/results/accuracy.md"])
    assert set(korean) == {"paper claims", "accuracy summary"}
    assert all(len(rows) >= 12 for rows in korean.values())
    for name, rows in korean.items():
        assert [sorted(row) for row in rows] == [sorted(row) for row in english[name]]


@pytest.mark.parametrize("page", READMES)
def test_a_readme_opens_with_where_the_rules_come_from(page):
    opening = read(page).split("\n## ")[0]
    for word in ("Boids", "Reynolds", "1987", "separation", "alignment", "cohesion"):
        assert word in opening


@pytest.mark.parametrize("page", READMES)
def test_whom_to_cite(page):
    """The rules' paper as the references have it, and this version of the software."""
    cited = dict(ENTRY.findall(BIBTEX.search(read(page))[1]))
    assert cited["reynolds1987"] == dict(ENTRY.findall(read("docs/references.bib")))["reynolds1987"]
    assert f"version = {{{ascender.__version__}}}" in cited["ascender"]
