"""What an import brings, and the way it points: only upstream."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ascender

SOURCE = Path(ascender.__file__).parent

# Data walks one way. What is not listed (compat, cli, bench …) comes after all of these.
HOUSE = (
    "common", "common.validate", "common.user_code", "common.lazy", "kernels", "kernels.gpu",
    "kernels.gpu.launch", "kernels.gpu.list_kernels", "kernels.gpu.list_attention",
    "kernels.gpu.list_sums_kernels", "kernels.gpu.list_sums", "kernels.gpu.top_k_kernels",
    "kernels.gpu.top_k", "kernels.gpu.tile_kernels", "kernels.gpu.main_pass_kernels",
    "kernels.gpu.main_pass_backward_kernels", "kernels.gpu.moved_mass_kernels",
    "kernels.gpu.main_pass", "kernels.gpu.centre_pass_kernels", "kernels.gpu.centre_pass",
    "kernels.gpu.running_sums_kernels", "kernels.gpu.running_sums",
    "kernels.build",
    "kernels.library", "kernels.operators", "kernels.list_operators", "core", "core.shapes",
    "core.visibility",
    "core.geometry", "core.rules", "core.rules.alignment", "core.rules.separation",
    "core.rules.cohesion", "core.schedule", "core.softmax", "core.combine",
    "core.normalizers", "core.affinity", "core.neighbours", "core.scope",
    "core.flock", "core.backends", "core.backends.base", "core.backends.autograd_utils",
    "core.backends.tiles", "core.backends.flash_narrow_values",
    "core.backends.stock_kernels", "core.backends.flash_cuda", "core.backends.flash",
    "core.backends.index_lists",
    "core.backends.topk_sparse", "core.backends.dense", "core.backends.compact_grads",
    "core.backends.compact", "core.backends.native", "core.backends.decode", "core.backends.fold",
    "core.backends.folded", "core.backends.packed", "core.backends.fused", "core.backends.windowed",
    "core.backends.flock", "core.checks",
    "core.choose_backend", "core.index_loss", "core.losses", "core.attention", "core.varlen", "nn",
    "nn.rule_parameters",
    "nn.positions.base", "nn.positions.rope", "nn.positions.alibi", "nn.positions.t5",
    "nn.positions.shaw", "nn.positions.absolute", "nn.positions", "nn.cache", "nn.call",
    "nn.nonfinite", "nn.packed", "nn.slot", "nn.one_token", "nn.module",
    "nn.baselines.hashing", "nn.baselines.vanilla", "nn.baselines.graph", "nn.baselines.shuffled",
    "nn.baselines.patterned", "nn.baselines.longformer", "nn.baselines.bigbird",
    "nn.baselines.linear", "nn.baselines.performer", "nn.baselines",
)  # fmt: skip


def modules():
    """Every module of the package by its name inside it; the package's own door is left out."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path.read_text(encoding="utf-8")
    return found


def imported(source, known):
    """The modules of the package that a source imports, wherever in it: `from a import b` is the
    module a.b where there is one, else a."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import; write the way out"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix("ascender.")
                names.add(f"{node.module}.{alias.name}" if inner in known else str(node.module))
    return {n.removeprefix("ascender.") for n in names if n.split(".")[0] == "ascender"} & known


def downstream(sources):
    """The imports that point the wrong way: module → what it should not know."""
    known, place = set(sources), {name: i for i, name in enumerate(HOUSE)}
    wrong = {}
    for name, source in sources.items():
        here = place.get(name, len(HOUSE))
        later = {n for n in imported(source, known) if place.get(n, len(HOUSE)) >= here}
        if name in place and later - {name}:
            wrong[name] = sorted(later)
    return wrong


def cycle(sources):
    """A module that reaches itself by imports, or None."""
    graph = {name: imported(source, set(sources)) - {name} for name, source in sources.items()}
    while graph:
        free = {name for name, needs in graph.items() if not needs & set(graph)}
        if not free:
            return sorted(graph)
        graph = {name: needs for name, needs in graph.items() if name not in free}
    return None


def test_the_house_stands():
    assert set(HOUSE) <= set(modules())


def test_imports_point_upstream():
    assert downstream(modules()) == {}


# After the house: a package knows those before it.
LATER = (
    "common", "kernels", "core", "nn", "report", "measure", "hf", "tasks", "insight", "train",
    "lab", "bench", "cli",
)  # fmt: skip


def out_of_order(sources):
    """The imports between packages that point the wrong way."""
    known, place = set(sources), {name: i for i, name in enumerate(LATER)}
    wrong = []
    for name, source in sources.items():
        here = place.get(name.split(".")[0], -1)
        for needs in imported(source, known):
            there = place.get(needs.split(".")[0], -1)
            if there > here >= 0:
                wrong.append((name, needs))
    return wrong


def test_packages_know_those_before_them():
    sources = modules()
    assert out_of_order(sources) == []
    changed = {**sources, "hf.heads": "from ascender.tasks.rows import rows"}
    assert out_of_order(changed) == [("hf.heads", "tasks.rows")]


def test_nothing_imports_itself():
    assert cycle(modules()) is None


@pytest.mark.parametrize(
    "line",
    [
        "from ascender.core import neighbours as nb",
        "from ascender.core.neighbours import top_k",
        "import ascender.nn.module",
        "def f():\n    from ascender.core.backends.dense import dense",
        "from ascender.bench import attention",
    ],
)
def test_a_wrong_turn_is_noticed(line):
    sources = modules()
    changed = {**sources, "core.combine": f"{sources['core.combine']}\n{line}\n"}
    assert list(downstream(changed)) == ["core.combine"]


def test_a_cycle_is_noticed():
    sources = modules()
    changed = {**sources, "nn.module": sources["nn.module"] + "\nimport ascender.cli\n"}
    assert cycle(changed) is not None


def loaded(statement):
    """Top-level names in sys.modules after a statement, in a Python of its own."""
    names = "sorted({name.split('.')[0] for name in sys.modules})"
    code = f"import json, sys\n{statement}\nprint(json.dumps({names}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


HEAVY = {
    "matplotlib", "typer", "rich", "click", "transformers", "scipy", "pandas", "sklearn",
    "datasets", "triton", "beartype", "hypothesis", "pytest", "PIL", "entmax",
}  # fmt: skip


def test_import_brings_torch_and_numpy_and_nothing_heavier():
    brought = loaded("from ascender import AscenderAttention, Cache, Losses, Schedule")
    assert {"ascender", "torch", "numpy"} <= brought
    assert not brought & HEAVY
    more = brought - loaded("import torch, numpy, jaxtyping") - set(sys.stdlib_module_names)
    assert more == {"ascender"}


def test_the_package_alone_brings_nothing():
    assert loaded("import ascender") - set(sys.stdlib_module_names) - loaded("pass") == {"ascender"}


def test_public_names_and_modules_are_there_at_first_use():
    for name in ascender.__all__:
        assert getattr(ascender, name).__name__ == name
        assert name in dir(ascender)
    assert set(ascender.HOMES) == set(ascender.__all__)
    assert "ascender" in loaded("import ascender; ascender.hf.AscenderConfig")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ascender.nothing  # noqa: B018


def commands():
    """Every command of the command line, as words."""
    import typer.main

    from ascender.cli import app

    def below(command, words):
        yield words
        for name, one in getattr(command, "commands", {}).items():
            yield from below(one, [*words, name])

    return list(below(typer.main.get_command(app), []))


def test_help_does_not_wait_for_torch():
    """One process for all of them: what the first brought, the others have too."""
    shown = "; ".join(f"show({[*words, '--help']!r})" for words in commands())
    code = f"""
from typer.testing import CliRunner
from ascender.cli import app
def show(words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "Usage" in done.output, words
    assert not {{"torch", "transformers", "numpy"}} & sys.modules.keys(), words
{shown}
"""
    assert len(commands()) > 20
    assert "typer" in loaded(code)


def test_a_heavy_import_is_noticed():
    assert loaded("import ascender, scipy") & HEAVY
