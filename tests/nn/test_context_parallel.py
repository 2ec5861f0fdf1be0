"""Context parallelism: two processes with half of the tokens each compute what one does."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from support import context_blocks as blocks

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed"),
    pytest.mark.usefixtures("unchecked_module"),
]


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """What each of two processes computed, by case."""
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(blocks.run, (str(folder), 2), 2)
    return [torch.load(folder / str(rank)) for rank in range(2)]


def largest(a, b):
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", blocks.CASES)
def test_two_processes_compute_what_one_does(halves, name):
    """Logits, the losses of three steps, and the gradients of every parameter."""
    one, two = blocks.train(blocks.CASES[name]), [half[name] for half in halves]
    bound = 1e-5 if name == "float32" else 1e-10
    logits = torch.cat([half["logits"] for half in two], 1)
    assert largest([logits], [one["logits"]]) < bound
    for half in two:
        assert half["losses"] == pytest.approx(one["losses"], abs=bound)
        used = [(x, y) for x, y in zip(half["grads"], one["grads"], strict=True) if y is not None]
        assert largest(*zip(*used, strict=True)) < bound
        assert all(y is not None or not x.any() for x, y in zip(half["grads"], one["grads"], strict=True))
