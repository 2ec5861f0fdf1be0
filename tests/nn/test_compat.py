"""The compatibility table: every cell tried again, and proof that the laws can fail."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ascender.core.normalizers import NORMALIZERS
from ascender.nn import compat
from ascender.nn.baselines import ATTENTIONS
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.compat import CompatCell, LawBroken, cells, check
from ascender.nn.positions import POSITIONS

PAGE = Path(__file__).parents[2] / "docs" / compat.PAGE


# All of them take three minutes: of the baselines one position always, the others when slow.
PAIRS = [
    pytest.param(a, p, marks=() if a == "ascender" or p == "rope" else pytest.mark.slow)
    for a in ATTENTIONS
    for p in POSITIONS
]


@pytest.mark.parametrize(("attention", "position"), PAIRS)
def test_cells_are_what_the_table_says(attention, position):
    found = compat.table(map(check, cells([attention], [position])))
    assert found[attention][position] == compat.stored()[attention][position]


def test_the_table_is_whole():
    names = {
        (a, p, n): set(entry["runs"]) | set(entry["refuses"])
        for a, rows in compat.stored().items()
        for p, row in rows.items()
        for n, entry in row.items()
    }
    assert set(names) == {(a, p, n) for a in ATTENTIONS for p in POSITIONS for n in NORMALIZERS}
    assert all(modes == set(compat.MODES) for modes in names.values())


def test_refusals_name_what_works():
    for rows in compat.stored().values():
        for row in rows.values():
            for entry in row.values():
                for why in entry["refuses"].values():
                    assert "expected" in why
                    assert len(why.split("expected")[1]) > 5


def test_the_page_is_the_table():
    assert PAGE.read_text("utf-8") == compat.page(compat.stored())


# Attentions that break a law each.


class Leaky(Vanilla):
    def attend_heads(self, call):
        return super().attend_heads(replace(call, vis=replace(call.vis, causal=False, mask=None)))


class Blind(Vanilla):
    def attend_heads(self, call):
        return call.v.expand_as(call.q)


class Deaf(Vanilla):
    def bias(self, call, other):
        return other


class Plain(Vanilla):
    def attend_heads(self, call):
        self.normalizer = NORMALIZERS["softmax"]()
        return super().attend_heads(call)

    parts = Vanilla.parts


class NoTwin(Vanilla):
    def attend_heads(self, call):
        return super().attend_heads(call) * 1.001


class Forgetful(Vanilla):
    def read_cache(self, call, mask):
        return replace(super().read_cache(call, None))


class Detached(Vanilla):
    def bias(self, call, other):
        found = super().bias(call, other)
        return found if found is None else found.detach()


class Spoilt(Vanilla):
    def attend_heads(self, call):
        return super().attend_heads(call) + (0 * call.q).sqrt()


@pytest.mark.parametrize(
    ("make", "position", "normalizer", "mode", "words"),
    [
        (Leaky, "none", "softmax", "causal", "row 0 changes with token 1"),
        (Leaky, "none", "softmax", "padded", "which it may not see"),
        (Blind, "none", "softmax", "full", "attends to no other token"),
        (Deaf, "t5", "softmax", "full", "the position changes nothing"),
        (Plain, "none", "length", "full", "from its definition|normalizer changes nothing"),
        (NoTwin, "none", "softmax", "full", "from its definition"),
        (Forgetful, "none", "softmax", "decode", "from the full pass"),
        (Detached, "t5", "softmax", "full", "position.table gets no gradient"),
        (Spoilt, "none", "softmax", "full", "not finite"),
    ],
)
def test_a_broken_law_is_noticed(make, position, normalizer, mode, words):
    with pytest.raises(LawBroken, match=words):
        check(CompatCell("vanilla", position, normalizer, mode), make)


def test_an_attention_that_ignores_its_window_is_noticed():
    class Wide(Vanilla):
        windows = True

        def attend_heads(self, call):
            return super().attend_heads(
                replace(call, vis=replace(call.vis, window=None, n_global=0))
            )

    with pytest.raises(LawBroken, match="which it may not see"):
        check(CompatCell("vanilla", "none", "softmax", "window"), Wide)


def test_what_is_saved_is_what_is_read(tmp_path):
    found = compat.table(map(check, cells(["vanilla"], ["none"], ["softmax"])))
    table, page = compat.save(found, tmp_path)
    kept = table.read_text("utf-8")
    assert kept.count("vanilla attention has no window") == 1, "a reason is written once"
    assert compat.letters(found["vanilla"]["none"]["softmax"]) == "FCPD"
    assert "| none | FCPD |" in page.read_text("utf-8")


def test_users_can_check_an_attention_of_their_own():
    class Mine(Vanilla):
        name = "mine"

    assert check(CompatCell("mine", "rope", "ssmax", "causal"), Mine).runs
    assert torch.is_grad_enabled()
