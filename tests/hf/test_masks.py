"""What a mask of transformers says: told by the function that made it, or read from the matrix."""

import pytest
import torch
from transformers import masking_utils

from ascender.core.visibility import Visibility
from ascender.hf.masks import described, understood

LEFT = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]).bool()
FUNCTIONS = {
    "causal": (masking_utils.causal_mask_function, {"causal": True, "window": None}),
    "window": (
        masking_utils.sliding_window_causal_mask_function(3), {"causal": True, "window": 2},
    ),
    "wide window": (
        masking_utils.sliding_window_causal_mask_function(30), {"causal": True, "window": None},
    ),
    "full": (masking_utils.bidirectional_mask_function, {"causal": False, "window": None}),
    "two-sided": (
        masking_utils.sliding_window_bidirectional_mask_function(2),
        {"causal": False, "window": 2},
    ),
}  # fmt: skip


def made(function, queries=7, keys=7, padding=None, start=None, skipped=0):
    """The matrix for the last `queries` of `keys` tokens, of which the cache dropped `skipped`."""
    start = keys + skipped - queries if start is None else start
    return described(
        batch_size=2, q_length=queries, kv_length=keys, q_offset=start, kv_offset=skipped,
        mask_function=function, attention_mask=padding,
    )  # fmt: skip


def visible(kinds, N, M):
    kinds = {name: kinds[name] for name in ("causal", "window", "mask")}
    return Visibility.of(N, M, **kinds).visible.expand(2, 1, N, M)


@pytest.mark.parametrize("skipped", [0, 2])
@pytest.mark.parametrize("padding", [None, LEFT, torch.ones_like(LEFT)])
@pytest.mark.parametrize("queries", [7, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_tells_what_the_matrix_has(name, queries, padding, skipped):
    function, kinds = FUNCTIONS[name]
    if skipped and padding is not None:
        padding = torch.cat([torch.ones(2, skipped, dtype=torch.bool), padding], 1)
    matrix = made(function, queries, 7, padding, skipped=skipped)
    said = understood(matrix, queries, 7, False)
    assert {n: said[n] for n in kinds} == kinds
    assert torch.equal(visible(said, queries, 7), matrix)
    hides = padding is not None and not bool(padding.all())
    assert (said["mask"] is not None) == hides


OTHERS = {
    "packed": masking_utils.and_masks(
        masking_utils.packed_sequence_mask_function(torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)),
        masking_utils.causal_mask_function,
    ),
    "an image": masking_utils.or_masks(
        masking_utils.causal_mask_function, lambda b, h, i, j: (i < 3) & (j < 3)
    ),
    "one-sided": masking_utils.sliding_window_overlay(3),
    "one's own": lambda b, h, i, j: j < i + 2,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_are_read_from_the_matrix(name):
    matrix = made(OTHERS[name])
    assert not hasattr(matrix, "_understood")
    said = understood(matrix, 7, 7, False)
    assert torch.equal(visible({"window": None, **said}, 7, 7), matrix)


def test_queries_elsewhere_and_other_sizes_are_read_from_the_matrix():
    assert not hasattr(made(masking_utils.causal_mask_function, 3, 7, start=2), "_understood")
    matrix = made(masking_utils.causal_mask_function)
    assert torch.equal(understood(matrix, 7, 5, False)["mask"], matrix[..., :5])
