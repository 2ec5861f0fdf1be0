"""Tasks and attentions of one's own, by module:Class: found where they are named, and never
imported because a file says so."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.user_code import code, import_code
from ascender.hf import AscenderConfig
from ascender.insight import load
from ascender.insight.loading import task_for
from ascender.lab import Store, Suite, suite
from ascender.lab.engine import Local
from ascender.lab.suite import known
from ascender.lab.trial import trial
from ascender.nn import compat
from ascender.nn.baselines import ATTENTIONS, attention
from ascender.nn.baselines.vanilla import Vanilla
from ascender.tasks import Task, kind_of
from ascender.train import VARIANTS, Run, variant
from ascender.train.folder import plain

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")


def file_of_the_page(name):
    """A file that docs/extending.md shows: a block that begins with its name."""
    return re.search(rf"```py\n(# {name}\n.*?)```", PAGE, re.DOTALL)[1]


BIAS = file_of_the_page("my_bias.py")
TASK = """
from ascender.tasks.distinct import Distinct

class Few(Distinct):
    examples = 10
    recipe = {"steps": 2, "batch": 2, "every": 2, "hidden": 8, "heads": 2, "layers": 1}
    def __init__(self):
        super().__init__(crowd=7, most=3, dim=5)
"""
NAMES = ("own_bias", "own_task", "own_evil", "own_suite", "my_bias")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with both, which is the current one and not on Python's path."""
    (tmp_path / "own_bias.py").write_text(BIAS, "utf-8")
    (tmp_path / "own_task.py").write_text(TASK, "utf-8")
    (tmp_path / "own_evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    yield tmp_path
    forget()


def forget():
    for name in NAMES:
        sys.modules.pop(name, None)


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_what_the_command_line_names_is_looked_for_here(here):
    done = run("train", "--task", "own_task:Few", "--variant", "own_bias:First+alibi+start=0.5",
               "--out", "a0")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert not {"", str(here)} & set(sys.path), "for the time of the import"
    assert json.loads((here / "a0/run.json").read_text())["run"]["variant"].startswith("own_bias:")
    saved = json.loads((here / "a0/model/config.json").read_text())
    assert (saved["attention"], saved["attention_options"]) == ("own_bias:First", {"start": 0.5})
    assert (saved["position"], saved["position_options"]) == ("alibi", {})
    again = run("train", "--task", "own_task:Few", "--variant", "own_bias:First+alibi+start=0.5",
                "--out", "a0", "--resume")  # fmt: skip
    assert "is finished" in again.stderr

    forget()
    refused = run("view", "a0")
    assert refused.exit_code == 1
    assert "attention = 'own_bias:First' is code that is not imported" in refused.stderr
    assert "expected --trust-code" in refused.stderr
    assert "own_bias" not in sys.modules
    assert not (here / "page.html").exists()
    with pytest.raises(ValueError, match="trust_code=True, or import own_bias before"):
        load("a0")

    viewed = run("view", "a0", "--trust-code")
    assert viewed.exit_code == 0, viewed.output
    loaded = load("a0", say=lambda line: None)  # its module is imported by now
    assert type(loaded.model.model.layers[0].attention).__name__ == "First"
    assert task_for(loaded, None).name == "own_task:Few"
    del sys.modules["own_task"]
    with pytest.raises(ValueError, match=r"task = 'own_task:Few' is code that is not imported"):
        task_for(loaded, None)


def test_a_file_that_names_code_does_not_run_it(here):
    Run.of("distinct", hidden=8, heads=2, layers=1)
    with pytest.raises(Exception, match="is code that is not imported"):
        AscenderConfig(attention="own_evil:Bias")
    for make in (kind_of, attention_of := lambda name: attention(name, 8, 2)):
        with pytest.raises(ValueError, match="is code that is not imported"):
            make("own_evil:Bias")
    assert attention_of("vanilla")
    fields = {**plain(Run.of("distinct")), "task": "own_evil:Task"}
    with pytest.raises(ValueError, match="is code that is not imported"):
        Run(**fields)
    fields = {**plain(Run.of("distinct")), "variant": "own_evil:Bias+k=8"}
    with pytest.raises(ValueError, match="variant = 'own_evil:Bias' is code that is not imported"):
        Run(**fields)
    assert variant("own_evil:Bias+rope+k=8").attention == "own_evil:Bias"  # its name, nothing run
    assert "own_evil" not in sys.modules
    assert not (here / "ran").exists()
    import_code("own_evil:Bias", here=True)  # the proof that it would be seen
    assert (here / "ran").exists()


def test_errors_of_the_module_are_shown(here):
    (here / "own_evil.py").write_text("a = 1\nb = c\n")
    for name, said in (
        ("own_evil:X", r"cannot import own_evil: NameError: .*'c' is not defined \(own_evil.py:2"),
        ("own_nothing:X", r"no module 'own_nothing' in .* or on Python's path"),
        ("own bias:X", r"'own bias:X'; expected module:Class"),
        ("own_bias:First:x", r"expected module:Class"),
    ):
        with pytest.raises(ValueError, match=said):
            import_code(name, here=True)
    (here / "own_evil.py").write_text("import own_nothing\n")
    with pytest.raises(ValueError, match="cannot import own_evil: ModuleNotFoundError"):
        import_code("own_evil:X", here=True)
    import_code("own_bias:First", here=True)
    with pytest.raises(ValueError, match=r"'own_bias:Frist' is not there \(did you mean 'First'"):
        code("attention", "own_bias:Frist", Vanilla)
    with pytest.raises(ValueError, match=r"own_bias:First' is <class.* expected a class derived"):
        code("task", "own_bias:First", Task)
    with pytest.raises(ValueError, match=r"no option 'strat' \(did you mean 'start'\?\)"):
        Run.of("distinct", variant="own_bias:First+strat=1")


def test_python_finds_them_on_its_path(here, monkeypatch):
    with pytest.raises(ValueError, match="no module 'own_task' on Python's path"):
        Run.of("own_task:Few")
    monkeypatch.syspath_prepend(here)
    made = Run.of("own_task:Few", variant="own_bias:First+rope")
    assert made.make_task().name == "own_task:Few"
    assert made.config(made.make_task()).position == "rope"


# --- what goes with what


def test_an_attention_of_ones_own_is_tried(here, monkeypatch):
    every = compat.cells
    some = {"positions": ["none", "alibi"], "normalizers": ["softmax"], "modes": ["full", "causal"]}
    monkeypatch.setattr(compat, "cells", lambda names: every(names, **some))
    few = {"none": {"softmax": {"runs": ["full", "causal"], "refuses": {}}}}
    few["alibi"] = few["none"]
    import_code("own_bias:First", here=True)
    first = sys.modules["own_bias"].First
    assert compat.table(compat.check(first)) == {"First": few}
    assert compat.table(compat.check("own_bias:First")) == {"own_bias:First": few}
    assert [v.runs for v in compat.check("vanilla")] == [True] * 4
    with pytest.raises(ValueError, match=r"unknown attention 'vanila' \(did you mean 'vanilla'"):
        compat.check("vanila")
    shown = run("list", "compat", "--attention", "own_bias:First", "--json")
    assert json.loads(shown.stdout) == {"own_bias:First": few}
    monkeypatch.setitem(ATTENTIONS, "first", first)  # in the registry, not in the stored table
    assert (
        json.loads(run("list", "compat", "--attention", "first", "--json").stdout)["first"] == few
    )


def test_an_attention_that_breaks_a_law_is_an_error(here):
    (here / "own_evil.py").write_text(
        "from ascender.nn.baselines.vanilla import Vanilla\n"
        "class Blind(Vanilla):\n"
        "    def attend_heads(self, call):\n"
        "        return call.v.expand_as(call.q)\n"
    )
    done = run("list", "compat", "--attention", "own_evil:Blind")
    assert done.exit_code == 1
    assert "attends to no other token" in done.stderr


# --- suites

SUITE = """
from ascender.lab import Suite, grid
SUITE = Suite("mine", "Mine is better.", grid(
    {"own_task:Few": {}}, ["vanilla", "first", "own_bias:First+rope"], seeds=1))
"""
REGISTERS = """
from ascender.nn.baselines import ATTENTIONS
from ascender.train import VARIANTS, Variant
from own_bias import First
ATTENTIONS["first"] = First
VARIANTS["first"] = Variant("first"), "a bias of the first token"
"""


@pytest.fixture
def registered():
    yield
    ATTENTIONS.pop("first", None)
    VARIANTS.pop("first", None)


@pytest.mark.slow
def test_workers_run_the_file_of_the_suite(here, registered, monkeypatch):
    (here / "own_suite.py").write_text(REGISTERS + SUITE)
    made, store = suite("own_suite.py"), Store(here / "lab")
    assert made.source == str(here / "own_suite.py")
    store.open(made.with_seeds(1))
    Local(1).go(store, made.runs, None, lambda: None)
    assert [store.failures(r.key) for r in made.runs] == [[], [], []]
    assert all(store.done(r.key) for r in made.runs)
    assert not list(store.folder.glob("worker-*.log"))
    seen = []

    def report(*args, **more):
        seen.append("own_bias" in sys.modules)
        return [here / "report" / "index.html"]

    monkeypatch.setattr("ascender.lab.reports.report", report)
    for more in ([], ["--trust-code"], ["--suite", "own_suite.py"]):
        forget()
        assert run("lab", "report", "lab", *more).exit_code == 0
    assert seen == [False, True, True]


def test_the_suite_of_the_page(here):
    (here / "my_bias.py").write_text(BIAS, "utf-8")
    (here / "my_suite.py").write_text(file_of_the_page("my_suite.py"), "utf-8")
    made = suite("my_suite.py")
    assert {run.variant for run in made.runs} == {"vanilla", "my_bias:First"}
    assert len(made.runs) == 10


def test_a_worker_says_what_was_wrong(here, registered):
    (here / "own_suite.py").write_text(REGISTERS + SUITE)
    made, store = suite("own_suite.py"), Store(here / "lab")
    first = made.runs[1]
    del VARIANTS["first"], ATTENTIONS["first"]
    found = trial(str(store.folder), plain(first))
    assert found["state"] == "failed"
    assert found["error"].startswith("ValueError: unknown variant 'first'")
    assert store.failures(first.key) == [found["error"]]
    (here / "own_suite.py").write_text("nonsense")
    found = trial(str(store.folder), plain(first), None, str(here / "own_suite.py"))
    assert "NameError: name 'nonsense' is not defined (own_suite.py:1)" in found["error"]


def test_a_worker_that_dies_leaves_its_last_words(tmp_path, monkeypatch):
    made = Suite("a", "claim", (Run.of("distinct", hidden=8, heads=2),))
    store, start = Store(tmp_path / "lab"), subprocess.Popen
    store.open(made)

    def dies(command, **options):
        return start([sys.executable, "-c", "import sys; sys.exit('out of luck')"], **options)

    monkeypatch.setattr(subprocess, "Popen", dies)
    Local(1).go(store, made.runs, None, lambda: None)
    errors = store.failures(made.runs[0].key)
    assert len(errors) == 2
    assert "the worker died (exit code 1: out of luck; " in errors[0]
    assert Path(errors[0].split("; ")[1].rstrip(")")).read_text() == "out of luck\n"


def test_suites_of_the_current_folder_are_run_only_as_files(here):
    (here / "experiments").mkdir()
    file = here / "experiments" / "quick.py"
    file.write_text("from pathlib import Path\nPath('ran').touch()\nSUITE = 3\n")
    (here / "experiments" / "mine.py").write_text(file.read_text())
    assert known()["quick"] != file
    assert "mine" not in known()
    assert suite("quick").name == "quick"
    refused = run("lab", "run", "mine", "--out", "lab")
    assert refused.exit_code == 1
    assert "or the path of a file" in refused.stderr
    assert not (here / "ran").exists()
    with pytest.raises(ValueError, match="SUITE = 3"):
        suite("experiments/quick.py")
    assert (here / "ran").exists()
