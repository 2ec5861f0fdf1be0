"""Every task: the laws that hold for all of them, and the example that its docstring draws."""

import doctest
import importlib
import inspect

import pytest
import torch

from ascender.cli.errors import message
from ascender.tasks import TASKS, kind_of, task
from ascender.tasks.base import SPLITS

HERE = [  # tasks that need no file
    "listops", "listops-short", "recall", "copy-noise", "needle", "pathfinder", "distinct",
    "grouping", "digits", "fewshot-digits", "pylib", "retrieval", "captions",
]  # fmt: skip
FLAGS = doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module", params=HERE)
def made(request):
    return task(request.param)


def same(a, b):
    return (
        a.inputs.keys() == b.inputs.keys()
        and all(torch.equal(t, b.inputs[name]) for name, t in a.inputs.items())
        and torch.equal(a.labels, b.labels)
        and torch.equal(a.level, b.level)
    )


def test_a_batch_is_a_function_of_seed_and_step(made):
    first = made.train(0, 3, 7)
    assert same(first, made.train(0, 3, 7))
    assert not same(first, made.train(0, 4, 7))
    assert not same(first, made.train(1, 3, 7))


def test_held_out_examples_are_always_the_same_and_of_their_own(made):
    for split in SPLITS[1:]:
        whole, again = next(made.eval_batches(split, 23)), next(made.eval_batches(split, 23))
        assert same(whole, again)
    a, b = (next(made.eval_batches(split, 23)) for split in SPLITS[1:])
    assert not same(a, b)
    with pytest.raises(ValueError, match="unknown split 'tset'; expected one of validation, test"):
        next(made.eval_batches("tset", 2))


def test_shapes_fit_what_the_task_says(made):
    batch = made.train(0, 0, 5)
    assert len(batch) == len(batch.level) == 5
    assert 0 <= int(batch.level.min()) <= int(batch.level.max()) < len(made.levels)
    for t in batch.inputs.values():
        assert t.shape[1] <= made.length
    if "input_ids" in batch.inputs:
        assert int(batch.inputs["input_ids"].max()) < made.vocab_size
    if "vectors" in batch.inputs:
        assert batch.inputs["vectors"].shape[-1] == made.vector_size
    if made.head in ("sequence", "token"):
        assert int(batch.labels.max()) < made.num_labels
    assert made.counted(batch) > 0


def test_the_floor_is_what_the_best_blind_guess_gets(made):
    """No constant answer beats it by more than chance allows."""
    if made.head != "sequence" or not made.higher:
        pytest.skip("labels are not one class an example")
    labels = torch.cat([batch.labels for batch in made.eval_batches("test", 100)])
    best = float(labels.bincount().max() / len(labels))
    assert 0 < made.chance < 1
    assert best == pytest.approx(made.chance, abs=3 * (made.chance / len(labels)) ** 0.5)


@pytest.mark.parametrize("name", HERE)
def test_the_docstring_draws_a_real_example(name):
    kind = kind_of(name)
    module = importlib.import_module(kind.__module__)
    tests = doctest.DocTestFinder(recurse=False).find(kind, globs=vars(module))
    assert tests
    assert tests[0].examples
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for case in tests:
        assert runner.run(case).failed == 0


def test_unknown_names_list_the_nearest():
    with pytest.raises(ValueError, match=r"unknown task 'distnct' \(did you mean 'distinct'\?\)"):
        task("distnct")
    with pytest.raises(TypeError, match=r"no option 'crwd' \(did you mean 'crowd'\?\); expected"):
        task("distinct", crwd=3)


def test_every_name_has_a_class():
    for name in TASKS:
        assert kind_of(name).__doc__


def test_an_example_is_displayed(made):
    """What a task shows fits its example: a name, picture and group a token, a name a class."""
    one = next(iter(made.eval_batches("test", 1)))
    N, seen = next(iter(one.inputs.values())).shape[1], made.display(one)
    assert seen.tokens is None or (len(seen.tokens) == N and all(seen.tokens))
    assert len(seen.classes) in (0, made.num_labels, made.vocab_size)
    told = one.labels[0].flatten()
    assert not seen.classes or int(told.max()) < len(seen.classes)
    if seen.images is not None:
        assert len(seen.images) == N
        assert seen.images.min() >= 0
        assert 0.5 < seen.images.max() <= 1
    if seen.grid is not None:
        assert seen.grid[0] * seen.grid[1] == N
    groups = made.clusters(one)
    assert (seen.groups is None) == (groups is None)
    if groups is not None:
        assert seen.groups == groups[0].tolist()
        assert max(seen.groups) < len(seen.group_names)


class NoNetwork(Exception):
    """As httpx's ConnectError: no OSError."""


@pytest.mark.parametrize(
    "name", [n for n in TASKS if "data_dir" in inspect.signature(kind_of(n)).parameters]
)
def test_without_a_network_the_error_is_one_line_that_names_the_files(name, monkeypatch, tmp_path):
    datasets = pytest.importorskip("datasets")

    def load_dataset(*args, **options):
        raise NoNetwork("no way out\nof here")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for where in ({}, {"data_dir": str(tmp_path)}):
        with pytest.raises(FileNotFoundError) as error:
            task(name, **where)
        said = message(error.value, "train")
        assert said is not None
        assert "\n" not in said
        assert "; expected" in said
