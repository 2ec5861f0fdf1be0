"""Every command with every extra alone: it works, or one line says which install it needs."""

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascender.cli.errors import EXTRAS, OF_COMMANDS, extra_for
from support.lab_cases import records, store

tomllib = pytest.importorskip("tomllib")
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
OWN = canonicalize_name(PROJECT["name"])


def closure(extras):
    """The distributions that pip installs for the package with these extras."""
    there = {canonicalize_name(OWN): set()}
    open_ = [(OWN, frozenset(extras))]
    while open_:
        name, wanted = open_.pop()
        for text in _requires(name, wanted):
            one = Requirement(text)
            if one.marker and not any(one.marker.evaluate({"extra": e}) for e in ("", *wanted)):
                continue
            key = canonicalize_name(one.name)
            if key not in there or not one.extras <= there[key]:
                there.setdefault(key, set()).update(one.extras)
                open_.append((key, frozenset(one.extras)))
    return set(there)


def _requires(name, extras):
    if name == OWN:
        optional = PROJECT["optional-dependencies"]
        return [*PROJECT["dependencies"], *(text for e in extras for text in optional[e])]
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def modules(extras):
    """The modules that are there with these extras, and those that are not."""
    kept, there, hidden = closure(extras), set(), set()
    for module, names in packages_distributions().items():
        known = {canonicalize_name(name) for name in names}
        (there if known & kept or OWN in known else hidden).add(module)
    return there, hidden - there


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_table_of_extras_is_that_of_the_project(extra):
    hidden = modules([extra])[1]
    assert not EXTRAS[extra] & hidden
    names = packages_distributions()
    for text in PROJECT["optional-dependencies"][extra]:
        key = canonicalize_name(Requirement(text).name)
        found = {m for m, some in names.items() if key in map(canonicalize_name, some)}
        if key != OWN and found:  # ray is not installed everywhere
            assert found & EXTRAS[extra], f"{key} is not in EXTRAS[{extra!r}]"


def test_every_extra_is_in_the_table():
    assert EXTRAS.keys() == PROJECT["optional-dependencies"].keys() - {"dev", "docs"}
    assert set(OF_COMMANDS.values()) <= EXTRAS.keys()
    assert extra_for("transformers.utils", "train") == "train"
    assert extra_for("transformers", "list") == "hf"
    assert extra_for("entmax", "train") == "normalizers"
    assert extra_for("my_tasks", "train") is None


# One Python that has torch, and a child of it for every environment: modules that are not there
# are not found, as if they were not installed.
CHILD = """
import json, os, sys
from importlib.machinery import PathFinder
import torch
cases, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])

class Finder(PathFinder):
    hidden = set()
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in cls.hidden:
            return None
        return super().find_spec(name, path, target)

sys.meta_path = [Finder if f is PathFinder else f for f in sys.meta_path]

def tried(name):
    Finder.hidden = set(cases[name])
    for module in list(sys.modules):
        if module.partition(".")[0] in Finder.hidden:
            del sys.modules[module]
    from typer.testing import CliRunner
    from ascender.cli import app
    found = {}
    for command in commands:
        done = CliRunner().invoke(app, command.split(), env={"COLUMNS": "200"})
        bug = None if isinstance(done.exception, (SystemExit, type(None))) else repr(done.exception)
        found[command] = [done.exit_code, bug, done.stderr[-2000:]]
    return found

for name in cases:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writes, "w") as pipe:
            json.dump(tried(name), pipe)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    print(json.dumps([name, json.loads(text)]))
"""
COMMANDS = (
    "demo --out demo", "list attentions", "list positions", "list normalizers", "list tasks",
    "list tasks distinct", "list tasks digits", "list tasks sst2 --data-dir .", "list variants",
    "list compat",
    "train --task distinct --variant vanilla --steps 1 --batch 2 --out NEW",
    "eval llama --tasks none",
    "view llama --text boids --out page.html", "insight llama --task pylib --examples 1 --out NEW",
    "limits llama --lengths 8 --batch 1 --out NEW", "lab list", "lab show quick --out NEW",
    "lab run quick --out NEW --budget soon", "lab report lab --out NEW",
    "paper nowhere --out NEW",
    "bench attention --lengths 8 --repeats 1 --no-memory", "bench report bench.json",
    "bench model --lengths 5 --repeats 1 --work nothing",
)  # fmt: skip
USAGE = {  # wrong on purpose: what they are asked to do takes long
    "eval llama --tasks none": 1, "lab run quick --out NEW --budget soon": 1,
    "list tasks sst2 --data-dir .": 1, "paper nowhere --out NEW": 1,
    "bench model --lengths 5 --repeats 1 --work nothing": 2,
}  # fmt: skip
TRAIN = "train --task distinct --variant vanilla --steps 1 --batch 2 --out NEW"
ALWAYS = ("list attentions", "list positions", "list normalizers", "list compat",
          "bench attention --lengths 8 --repeats 1 --no-memory")  # fmt: skip
WORKS = {
    "figures": ("demo --out demo",),
    "train": ("list variants", TRAIN),
    "view": ("view llama --text boids --out page.html",),
    "lab": ("lab list", "lab report lab --out NEW", "lab show quick --out NEW",
            "insight llama --task pylib --examples 1 --out NEW",
            "limits llama --lengths 8 --batch 1 --out NEW", "list tasks digits"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    import transformers

    here = tmp_path_factory.mktemp("extras")
    few = {"vocab_size": 259, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(**few, intermediate_size=16, num_key_value_heads=2)
    transformers.LlamaForCausalLM(config).save_pretrained(here / "llama")
    store(here / "lab", records(("distinct",), ("vanilla", "ascender"), 2))
    bench = {"study": "layer", "command": "ascender bench layer", "rows": [],
             "machine": {"torch": "2.8", "threads": 1}}  # fmt: skip
    (here / "bench.json").write_text(json.dumps(bench))
    return here


def tried(place, extras, commands=COMMANDS):
    """(extra, command) → exit code, the bug if it is one, stderr."""
    cases = {extra: sorted(modules({"cli", extra})[1]) for extra in extras}
    lines = [c.replace("NEW", f"new/{i}") for i, c in enumerate(commands)]
    argv = [sys.executable, "-c", CHILD, json.dumps(cases), json.dumps(lines)]
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for text in done.stdout.splitlines():
        extra, found = json.loads(text)
        for command, line in zip(commands, lines, strict=True):
            yield extra, command, *found[line]


def check(extra, command, code, bug, stderr):
    what = f"ascender {command} with [cli,{extra}]: {stderr}"
    assert bug is None, f"{what}{bug}"
    assert "Traceback" not in stderr, what
    if code == 0 or command in ALWAYS or command in WORKS.get(extra, ()):
        assert code == 0, what
        return
    missing = re.search(r'pip install "ascender-attention\[([a-z]+)\]"', stderr)
    if missing is None:
        assert USAGE.get(command) == code, what
    else:
        assert code in (1, 2), what
        assert missing[1] in EXTRAS, what
        assert missing[1] != extra, f"{what} and that is installed"


def test_with_what_the_readme_names(place):
    found = list(tried(place, ["figures"]))
    assert len(found) == len(COMMANDS)
    for one in found:
        check(*one)
    needs = {command: stderr for _, command, _, _, stderr in found}
    assert "[train]" in needs[TRAIN]
    assert "[lab]" in needs["lab list"]
    assert "[view]" in needs[WORKS["view"][0]]


@pytest.mark.slow
def test_with_every_extra(place):
    for one in tried(place, [e for e in EXTRAS if e not in ("figures", "ray", "slurm")]):
        check(*one)
