"""The strings of the paper's writers: what a table or a figure is called, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

PAPER = Strings({
    "latex.tablename": ("Table", "표"),
    "latex.figurename": ("Figure", "그림"),
    "latex.abstractname": ("Abstract", "초록"),
    "latex.refname": ("References", "참고 문헌"),
    "continued": ("continued", "이어짐"),
    "first_part": ("(In {n} parts.)", "({n}부분으로 나눔.)"),
    "table_part": ("Table {label}, part {i} of {n}.", "표 {label}, {n}부분 중 {i}."),
})  # fmt: skip
