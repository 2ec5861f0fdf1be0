"""Pictures and captions in one sequence, by the grid and by likeness."""

import pytest
import torch

from ascender.nn.baselines import attention
from ascender.nn.module import AscenderAttention
from ascender.tasks import task
from ascender.tasks.captions import ACROSS, LONGEST, NAMES, SIDES, WORDS


@pytest.fixture(scope="module")
def made():
    pytest.importorskip("sklearn")
    return task("captions")


def says(made, words, picture):
    """Whether a caption is true of a picture, by the words alone."""
    digit, ink = int(made.digits[picture]), made.ink[picture]
    numbers = [NAMES.index(word) for word in words if word in NAMES]
    if words[0] == "a":
        return digit == numbers[0]
    if words[0] == "not":
        return digit != numbers[0]
    if words[0] in ("even", "odd"):
        return (digit % 2 == 0) == (words[0] == "even")
    if words[0] == "between":
        return numbers[0] <= digit <= numbers[1]
    side = SIDES.index(words[2])
    return ink[side] > ink[side ^ 1]


def test_captions_are_true_where_the_label_says_so(made):
    batch = made.train(0, 0, 200)
    of = {made.patches[i].tobytes(): i for i in range(len(made.patches))}
    for ids, x, label, level in zip(
        batch.inputs["input_ids"], batch.inputs["vectors"], batch.labels, batch.level, strict=True
    ):
        words = [WORDS[i] for i in ids[ACROSS**2 :].tolist() if i]
        picture = of[x[: ACROSS**2].numpy().tobytes()]
        holds = says(made, words, picture)
        if level == 4 and not label:  # halves of equal ink: neither has more
            assert not holds
        else:
            assert holds == bool(label)
        assert (ids[: ACROSS**2] == 0).all()
        assert (x[ACROSS**2 :] == 0).all()


def test_patches_go_by_the_grid_and_words_by_nothing(made):
    lists = made.neighbours
    assert (lists[-LONGEST:] == -1).all()
    corner = [j for j in lists[0].tolist() if j >= 0]
    assert corner == [1, ACROSS, ACROSS + 1]


def own_and_given(layer, x, lists):
    semantic = layer(x, return_neighbours=True)[1]
    both = layer(x, neighbours=lists, return_neighbours=True)[1]
    return (
        [[set(r.tolist()) - {-1} for r in rows] for rows in t.expand(x.shape[0], 2, -1, -1)[0]]
        for t in (semantic, both)
    )


def test_lists_beside_the_neighbours_that_a_layer_finds(made):
    torch.manual_seed(0)
    x, lists = torch.randn(1, made.length, 12), made.neighbours
    alone = AscenderAttention(12, heads=2, k=3)
    layer = AscenderAttention(12, heads=2, k=3, lists="add")
    layer.load_state_dict(alone.state_dict())
    near, _ = own_and_given(alone, x, lists)
    _, both = own_and_given(layer, x, lists)
    given = [set(row.tolist()) - {-1} for row in lists]
    for mine, all_of_them in zip(near, both, strict=True):
        assert [a | b for a, b in zip(mine, given, strict=True)] == all_of_them
    assert torch.equal(layer(x), alone(x))  # without lists nothing changes
    for backend in ("dense", "folded", "compact"):
        layer.backend = backend
        torch.testing.assert_close(layer(x, neighbours=lists), layer(x, neighbours=lists.clone()))
    none = torch.full_like(lists, -1)
    torch.testing.assert_close(layer(x, neighbours=none), alone(x))


def test_lists_are_added_as_a_piece_of_a_variant(made):
    assert attention("ascender", 12, 2, lists="add").lists == "add"
    with pytest.raises(ValueError, match=r"unknown lists 'ad' .*expected one of replace, add"):
        AscenderAttention(12, heads=2, lists="ad")
    with pytest.raises(ValueError, match="lists = 'add' with scope='flock'"):
        AscenderAttention(12, heads=2, lists="add", scope="flock")
    layer = AscenderAttention(12, heads=2, lists="add")
    x, cache = torch.randn(1, 5, 12), layer.new_cache()
    layer(x[:, :4], causal=True, cache=cache)
    with pytest.raises(ValueError, match="lists = 'add' with a cache"):
        layer(x[:, 4:], causal=True, cache=cache, neighbours=torch.zeros(1, 1, dtype=torch.long))
