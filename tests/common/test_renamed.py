"""Old names are refused with the new ones."""

import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.renamed import RENAMED
from ascender.lab.suite import known, suite
from ascender.train import VARIANTS, Run, variant


def test_every_new_name_is_known_and_no_old_one():
    assert set(RENAMED["variant"].values()) <= set(VARIANTS)
    assert set(RENAMED["suite"].values()) <= set(known())
    assert not set(RENAMED["variant"]) & set(VARIANTS)
    assert not set(RENAMED["suite"]) & set(known())


@pytest.mark.parametrize(("old", "new"), RENAMED["variant"].items())
def test_old_variants_say_the_new_name(old, new):
    for name in (old, f"{old}+rope+k=8"):
        with pytest.raises(ValueError, match=f"'{old}' is now '{new}'"):
            variant(name)
    with pytest.raises(ValueError, match=f"'{old}' is now '{new}'"):
        Run.of("distinct", variant=old)


@pytest.mark.parametrize(("old", "new"), RENAMED["suite"].items())
def test_old_suites_say_the_new_name(old, new):
    for name in (old, f"experiments/{old}.py"):
        with pytest.raises(ValueError, match=f"'{old}' is now '{new}'"):
            suite(name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--task", "distinct", "--variant", "mute"], "'mute' is now 'no-rules'"),
        (["lab", "run", "muted"], "'muted' is now 'against_no_rules'"),
        (["lab", "show", "muted"], "'muted' is now 'against_no_rules'"),
    ],
)
def test_the_command_line_says_it_too(words, said, tmp_path):
    ran = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "new")])
    assert ran.exit_code == 1
    assert said in ran.output
    assert not (tmp_path / "new").exists()


def test_a_variant_of_your_own_may_have_an_old_name(monkeypatch):
    monkeypatch.setitem(VARIANTS, "fast", VARIANTS["vanilla"])
    assert variant("fast+rope").attention == "vanilla"
