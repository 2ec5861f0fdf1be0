"""Every setting of a run is an option of `ascender train`, without a second list."""

import subprocess
import sys
from dataclasses import fields

import typer

from ascender.cli import app
from ascender.train import Run
from ascender.train.settings import Settings


def options():
    return {p.name: p for p in typer.main.get_command(app).commands["train"].params}


def test_every_setting_is_an_option_with_its_help():
    known = options()
    for field in fields(Settings):
        assert known[field.name].help == field.metadata["help"]
        assert known[field.name].opts == [f"--{field.name.replace('_', '-')}"]
    assert {f.name for f in fields(Run)} == {f.name for f in fields(Settings)}


def test_required_options_come_first():
    first, second, *rest = options().values()
    assert (first.name, second.name) == ("task", "out")
    assert first.required
    assert second.required
    assert not any(option.required for option in rest)


def test_a_setting_that_a_task_may_choose_has_no_default_of_its_own():
    known = options()
    shown = {f.name for f in fields(Settings) if known[f.name].default is not None}
    assert shown == {"variant", "seed", "checkpointing"}


def test_help_of_train_needs_no_torch():
    code = (
        "import sys; from typer.testing import CliRunner; from ascender.cli import app\n"
        "for words in (['--help'], ['train', '--help']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_size_fills_in_what_is_not_given():
    run = Run.of("distinct", size="tiny", heads=2)
    assert (run.hidden, run.layers, run.heads) == (64, 2, 2)
