"""Generated tasks against evaluators that share nothing with the generators."""

import statistics

import numpy as np
import pytest
import torch

from ascender.tasks import task
from ascender.tasks.listops import TOKENS
from ascender.train.run import Run

VALUES = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda args: int(statistics.median(args)),
    "[SM": lambda args: sum(args) % 10,
}


def value_of(words):
    """A stack machine: the value, how deep operations nest, and the most arguments of one."""
    stack, deepest, widest = [[]], 0, 0
    for word in words:
        if word in VALUES:
            stack.append([word])
            deepest = max(deepest, len(stack) - 1)
        elif word == "]":
            op, *args = stack.pop()
            widest = max(widest, len(args))
            stack[-1].append(VALUES[op](args))
        else:
            stack[-1].append(int(word))
    ((value,),) = stack
    return value, deepest, widest


def sentences(batch):
    for ids, mask in zip(*(batch.inputs[k] for k in ("input_ids", "attention_mask")), strict=True):
        assert not ids[mask == 0].any()
        yield [TOKENS[i] for i in ids[mask == 1].tolist()]


@pytest.mark.parametrize(
    ("name", "options", "n"),
    [("listops", {}, 41), ("listops-short", {}, 307),
     ("listops", {"min_length": 7, "max_length": 27, "max_depth": 4, "max_args": 3}, 211)],
)  # fmt: skip
def test_listops_evaluates(name, options, n):
    made = task(name, **options)
    batch = made.train(0, 0, n)
    for words, label, level in zip(sentences(batch), batch.labels, batch.level, strict=True):
        value, depth, widest = value_of(words)
        assert value == label
        assert made.min_length < len(words) <= made.length
        assert depth < made.max_depth
        assert 2 <= widest <= made.max_args
        size = len(words) if made.slices == "length" else depth
        assert level == sum(size >= border for border in made.borders)
    assert set(batch.level.tolist()) == {0, 1, 2}


def test_listops_has_the_operators_and_shape_of_the_published_grammar():
    words = [w for s in sentences(task("listops").train(0, 0, 37)) for w in s]
    ops = [words.count(op) for op in VALUES]
    assert max(ops) < 1.2 * min(ops)
    values = [words.count(str(d)) for d in range(10)]
    assert max(values) < 1.1 * min(values)
    assert value_of(["[SM", "8", "[MED", "1", "4", "]", "[MAX", "9", "3", "]", "]"]) == (
        9,
        2,
        3,
    )  # 8 + ⌊2.5⌋ + 9


def test_recall_is_a_dictionary():
    made = task("recall")
    batch = made.train(0, 0, 53)
    for ids, labels, level in zip(
        batch.inputs["input_ids"], batch.labels, batch.level, strict=True
    ):
        pairs = made.pairs[level]
        ids, labels = ids.tolist(), labels.tolist()
        known = dict(zip(ids[: 2 * pairs : 2], ids[1 : 2 * pairs : 2], strict=True))
        assert len(known) == len(set(known.values())) == pairs
        due = [i for i, label in enumerate(labels) if label != -100]
        assert min(due) > 2 * pairs
        assert sorted(ids[i - 1] for i in due) == sorted(known)
        assert all(labels[i] == ids[i] == known[ids[i - 1]] for i in due)
    assert set(batch.level.tolist()) == {0, 1, 2, 3}


def test_copy_noise_repeats_what_is_not_noise():
    made = task("copy-noise", noise=29, remember=[3, 7], symbols=5)
    batch = made.train(0, 0, 67)
    for ids, labels, level in zip(
        batch.inputs["input_ids"], batch.labels, batch.level, strict=True
    ):
        text, mark, answer = ids[:29], ids[29], ids[30:]
        assert mark == 1
        kept = text[text > 0].tolist()
        assert len(kept) == made.remember[level]
        assert labels[labels != -100].tolist() == kept == answer[: len(kept)].tolist()
        assert (labels[:30] == -100).all()
        assert not answer[len(kept) :].any()
    where = (batch.inputs["input_ids"][:, :29] > 1).sum(0)
    assert where.min() > 0  # symbols anywhere


@pytest.mark.parametrize("options", [{}, {"length": 257, "decoys": 5}])
def test_needle_is_found_by_its_key(options):
    made = task("needle", **options)
    batch = made.train(0, 0, 97)
    for ids, labels, level in zip(
        batch.inputs["input_ids"], batch.labels, batch.level, strict=True
    ):
        assert (labels != -100).nonzero().flatten().tolist() == [made.length - 1]
        (at,) = (ids[:-2] == ids[-2]).nonzero().flatten().tolist()
        assert ids[at + 1] == ids[-1] == labels[-1]
        assert (ids[:-2] >= made.words).sum() == 2 * (made.decoys + 1)
        assert level == int(5 * at / (made.length - 2))
    assert set(batch.level.tolist()) == set(range(5))


def joined(image):
    """Whether one comes from dot to dot over dash pixels, at most two pixels a step. Dots are
    found by their shape and never stepped over."""
    dots, left = [], {tuple(p) for p in np.argwhere(image == 7).tolist()}
    for y, x in sorted(left):
        shape = {(y, x), (y + 1, x), (y + 2, x), (y + 1, x - 1), (y + 1, x + 1)}
        if shape <= left:
            dots.append(shape)
            left -= shape
    start, goal = dots
    assert not left
    dashes = {tuple(p) for p in np.argwhere((image > 0) & (image < 7)).tolist()}
    todo, seen = list(start), set()
    while todo:
        y, x = todo.pop()
        near = {(y + dy, x + dx) for dy in range(-2, 3) for dx in range(-2, 3)}
        if (y, x) not in start and near & goal:
            return True
        new = near & dashes - seen
        seen |= new
        todo += new
    return False


@pytest.mark.parametrize("options", [{}, {"contours": [5, 11], "side": 37, "distractors": 3}])
def test_pathfinder_is_a_walk(options):
    made = task("pathfinder", **options)
    batch = made.train(0, 0, 60)
    images = batch.inputs["input_ids"].view(-1, made.side, made.side).numpy()
    told = [joined(image) for image in images]
    assert told == batch.labels.bool().tolist()
    assert 0 < sum(told) < len(told)
    assert set(batch.level.tolist()) == set(range(len(made.contours)))
    cut = images[told.index(True)].copy()
    for y, x in np.argwhere(cut == 7):  # what leads away from the dots
        around = cut[max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4]
        around[around < 7] = 0
    assert not joined(cut)


def test_pathfinder_says_nothing_by_its_pixels_or_distances():
    """Neither how much is drawn nor how far apart the dots are tells the answer."""
    batch = task("pathfinder", contours=[9], distractors=2).train(0, 0, 400)
    images = batch.inputs["input_ids"].view(-1, 32, 32)
    label = batch.labels.double()
    y, x = torch.meshgrid(*(torch.arange(32.0),) * 2, indexing="ij")
    bright = (images == 7).float()
    spread = sum(((bright * t).pow(2).sum((1, 2)) / 10) - (bright * t).mean((1, 2)).mul(102.4) ** 2
                 for t in (y, x))  # fmt: skip
    for feature in ((images > 0).sum((1, 2)), spread):
        r = torch.corrcoef(torch.stack([feature.double(), label]))[0, 1]
        assert abs(float(r)) < 0.2
    assert 150 < label.sum() < 250


def test_grouping_names_clusters():
    made = task("grouping")
    batch = made.train(0, 0, 101)
    x, ids, true = batch.inputs["vectors"], batch.inputs["input_ids"], made.clusters(batch)
    assert torch.equal(ids > 0, batch.labels == -100)
    nearest, central, seen = 0.0, 0.0, set()
    for i in range(len(batch)):
        names, count = true[i].unique(return_counts=True)
        seen.add(len(names))
        assert count.min() >= 2
        assert sorted((ids[i][ids[i] > 0] - 1).tolist()) == names.tolist()
        low, high = made.levels[batch.level[i]].split()[0].split("–")
        assert int(low) <= len(names) <= int(high)
        ask = ids[i] == 0
        centres = torch.stack([x[i][true[i] == name].mean(0) for name in names])
        told = torch.stack([x[i][ids[i] == name + 1][0] for name in names])
        for centre, kind in ((centres, "central"), (told, "nearest")):
            guess = names[torch.cdist(x[i][ask], centre).argmin(1)]
            hit = float((guess == batch.labels[i][ask]).double().mean()) / len(batch)
            central, nearest = (
                central + hit * (kind == "central"),
                nearest + hit * (kind != "central"),
            )
    assert seen == set(range(2, 9))
    assert central > 0.97  # the vectors tell; the group tells more than its named member
    assert made.chance < 0.5 < nearest < central - 0.01


def test_fewshot_digits_keeps_images_apart_and_names_them():
    made = task("fewshot-digits")
    rows, digit = {image.tobytes(): i for i, image in enumerate(made.images)}, {}
    where = {split: {int(r) for at in pool for r in at} for split, pool in made.of.items()}
    assert not where["train"] & (where["validation"] | where["test"])
    from sklearn.datasets import load_digits

    for image, target in zip(load_digits().images, load_digits().target, strict=True):
        digit[(image.ravel() / 16).astype(np.float32).tobytes()] = int(target)
    for split, batch in (
        ("train", made.train(0, 0, 43)),
        ("test", next(made.eval_batches("test", 43))),
    ):
        for x, ids, labels, level in zip(
            batch.inputs["vectors"].numpy(), batch.inputs["input_ids"], batch.labels, batch.level,
            strict=True,
        ):  # fmt: skip
            kinds = [digit[v.tobytes()] for v in x]
            assert len({v.tobytes() for v in x}) == len(x) == 46
            assert {rows[v.tobytes()] for v in x} <= where[split]
            named = {kinds[i]: int(ids[i]) - 1 for i in range(45) if ids[i] > 0}
            assert sorted(named.values()) == [0, 1, 2, 3, 4]
            assert all(kinds[:45].count(kind) == 9 for kind in named)
            assert ids[-1] == 6
            assert (labels[:-1] == -100).all()
            assert labels[-1] == named[kinds[-1]]
            apart = [((x[i] - x[-1]) ** 2).sum() if ids[i] > 0 else np.inf for i in range(45)]
            assert level == int(named[kinds[int(np.argmin(apart))]] != labels[-1])


def test_kinds_that_training_has_not_seen():
    made = task("fewshot-digits", ways=4, unlabelled=2, seen=6)
    for split, kinds in (("train", {0, 1, 2, 3, 4, 5}), ("test", {6, 7, 8, 9})):
        batch = made.episodes(np.random.default_rng(0), 40, split)
        assert set(made.clusters(batch).flatten().tolist()) == kinds
    assert {int(x) for x in batch.labels[:, -1]} == {0, 1, 2, 3}


def test_fewshot_fashion_averages_pixels(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (900, 28, 28), dtype=np.uint8)
    kinds = np.arange(900) % 10
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for stem in ("train", "t10k"):
        head = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in images.shape)
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = bytes([0, 0, 8, 1]) + (900).to_bytes(4, "big")
        labels = kinds.astype(np.uint8).tobytes()
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(head + labels)
    with pytest.raises(ValueError, match=r"unlabelled = 150; expected from 0 to"):
        task("fewshot-fashion", unlabelled=150, data_dir=str(tmp_path))
    made = task("fewshot-fashion", ways=3, unlabelled=0, seen=5, data_dir=str(tmp_path))
    batch = made.episodes(np.random.default_rng(0), 5, "train")
    x = batch.inputs["vectors"][0, 0].numpy().reshape(14, 14)
    small = [image[:2, :2].mean() / 255 for image in images]
    assert min(abs(x[0, 0] - s) for s in small) < 1e-6
    assert set(made.clusters(batch).flatten().tolist()) <= {0, 1, 2, 3, 4}


def test_names_in_the_context_are_not_those_of_the_digits():
    """The same digit has other names elsewhere: no answer without the context."""
    labels = torch.cat([b.labels[:, -1] for b in task("fewshot-digits").eval_batches("test", 100)])
    assert labels.bincount(minlength=5).min() > 150


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("listops", {"max_args": 1}, "max_args = 1; expected at least 2"),
        ("listops", {"max_depth": 2}, "max_depth = 2; expected at least 3"),
        (
            "listops",
            {"min_length": 500, "max_depth": 3},
            "min_length = 500; expected from 3 to 121",
        ),
        ("listops", {"max_length": 400}, "max_length = 400; expected at least"),
        ("listops", {"slices": "width"}, "slices = 'width'; expected one of length, depth"),
        ("recall", {"pairs": [4, 33]}, r"pairs = \[4, 33\]; expected numbers from 1 to 32"),
        ("recall", {"pairs": []}, r"pairs = \[\]; expected at least one"),
        ("copy-noise", {"remember": [200]}, r"remember = \[200\]; expected numbers from 1 to"),
        ("copy-noise", {"symbols": 1}, "symbols = 1; expected at least 2"),
        ("needle", {"length": 5}, "length = 5; expected at least 12"),
        ("needle", {"decoys": 16}, "decoys = 16; expected from 0 to keys − 1 = 15"),
        ("pathfinder", {"contours": [99]}, r"contours = \[99\]; expected numbers of dashes"),
        ("pathfinder", {"side": 8}, "side = 8; expected from 16 to 128"),
        ("pathfinder", {"distractors": -1}, "distractors = -1; expected a number ≥ 0"),
        ("grouping", {"most": 1}, "most = 1; expected from 2 to half of crowd = 64"),
        ("grouping", {"noise": -1.0}, "noise = -1.0; expected a number ≥ 0"),
        ("fewshot-digits", {"ways": 11}, "ways = 11; expected from 2 to 10"),
        ("fewshot-digits", {"seen": 6}, r"ways = 5; expected from 2 to 4 \(seen = 6 leaves 4 new"),
        ("fewshot-digits", {"seen": 1}, "seen = 1; expected from 2 to 10"),
        ("fewshot-digits", {"unlabelled": 40}, "unlabelled = 40; expected from 0 to"),
    ],
)
def test_bad_options_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        task(name, **options)


def test_validating_pathfinder_costs_little_beside_training():
    """1024 tokens an image: of validations a step has two images for the 16 it trains on."""
    run = Run.of("pathfinder")
    assert task("pathfinder").examples / run.every <= run.batch / 8
