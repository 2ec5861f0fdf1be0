"""The strings beside the author's own text, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

AUTHOR = Strings({
    "claim": (" (claim {n})", "(주장 {n})"),
    "not_shown": ("not in the results: {numbers}", "결과에 없음: {numbers}"),
    "no_result": ("not in the result: {numbers}", "결과에 없음: {numbers}"),
    "is": ("claim {n} is {verdict}", "주장 {n}: {verdict}"),
    "ours": ("What the measurements say:", "측정값이 말하는 것:"),
    "heading": ("The author's sentences and the measurements", "저자의 문장과 측정값"),
    "counts": (
        "{n} sentences are the author's own; {claiming} of them name a claim, and the measurements "
        "do not support {wrong}. Their numbers were looked for in the claim and its result; those "
        "of sentences without a claim, which no verdict says anything about, among the numbers of "
        "this paper before the appendix, those of a table's caption in that table. A number that "
        "is there may still be said of something else.",
        "저자의 문장은 {n}개이고, 주장을 밝힌 것은 {claiming}개, 측정값이 지지하지 않는 것은 "
        "{wrong}개이다. 그 숫자는 주장과 결과에서 찾았다. 주장을 밝히지 않은 문장에는 판정이 없고, "
        "숫자만 부록 앞의 수에서, 표의 설명이면 그 표에서 찾았다. 찾은 수라도 다른 것을 가리킬 수 "
        "있다.",
    ),
    "list": (
        "Sentences that the measurements do not support",
        "측정값이 지지하지 않는 문장",
    ),
    "none": (
        "The measurements support every sentence that names a claim.",
        "주장을 밝힌 모든 문장을 측정값이 지지한다.",
    ),
    "title.author": ("The author's sentences and the verdicts of their claims",
                     "저자의 문장과 그 주장의 판정"),
    "note.author": (
        "Every sentence that names a claim, and what the trials say of it.",
        "주장을 밝힌 문장과 그에 대한 시행의 결과.",
    ),
    "column.place": ("where", "위치"),
    "column.sentence": ("sentence", "문장"),
    "column.own_claim": ("claim", "주장"),
})  # fmt: skip
