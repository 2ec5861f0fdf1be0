"""Word problems with a final answer: GSM8K and MATH."""

from __future__ import annotations

import re
from typing import ClassVar

from ascender.common.validate import lookup
from ascender.tasks.answers import Answers, Asked
from ascender.tasks.rows import rows

NUMBER = re.compile(r"-?\$?-?(?:\d[\d,]*\.?\d*|\.\d+)")


def final_number(text: str) -> str:
    """The number behind the last ####, or the first of a text without one; "" where there is none.

    >>> final_number("so 3 + 4 = 7\\n#### $1,070.00"), final_number(" 18."), final_number("none")
    ('1070', '18', '')
    """
    match = NUMBER.search(text.rsplit("####", 1)[-1])
    if match is None:
        return ""
    number = match.group().replace(",", "").replace("$", "")
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    sign = "-" if number.startswith("-") else ""
    digits = number.lstrip("-").lstrip("0")
    digits = f"0{digits}" if digits.startswith(".") or not digits else digits
    return digits if digits == "0" else sign + digits


def boxed(text: str) -> str | None:
    """What is in the last \\boxed{…}, braces inside it balanced; None where there is none.

    >>> boxed(r"thus $\\boxed{\\frac{1}{2}}$.")
    '\\\\frac{1}{2}'
    """
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if start < 0:
        return None
    rest = text[start:].split("boxed", 1)[-1].split("fbox", 1)[-1]
    if not rest.startswith("{"):
        return re.split(r"[\s$]", rest.strip(), maxsplit=1)[0]
    depth = 0
    for i, c in enumerate(rest):
        depth += (c == "{") - (c == "}")
        if depth == 0:
            return rest[1:i]
    return None


# As the MATH paper's own comparison has it: first what says nothing, then one spelling of a thing.
SPELLINGS = [
    (r"\\!|\n|\\left|\\right|\^\{?\\circ\}?|\\?\$|\\?%", ""),
    (r"\\\\", r"\\"), (r"[td]frac", "frac"), (r"\\text\{ .*?\}$|\\mbox\{.*?\}$", ""),
    (r"^\s*\w\s*=\s*", ""), (r"\s+", ""), (r"(?<!\d)\.(?=\d)", "0."),
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),
    (r"\\sqrt(\w)", r"\\sqrt{\1}"), (r"\\frac(\d)(\d)", r"\\frac{\1}{\2}"),
    (r"\\frac(\d)\{", r"\\frac{\1}{"), (r"^(-?\d+)/(-?\d+)$", r"\\frac{\1}{\2}"),
    (r"^0\.5$", r"\\frac{1}{2}"), (r"^\\text\{(.*)\}$", r"\1"), (r"\.0*$", ""),
]  # fmt: skip


def plain(answer: str) -> str:
    """One spelling for answers that mean the same.

    >>> plain(r"x = \\dfrac12"), plain("0.5"), plain(r"90^\\circ"), plain(r"10,\\!000")
    ('\\\\frac{1}{2}', '\\\\frac{1}{2}', '90', '10000')
    """
    for pattern, instead in SPELLINGS:
        answer = re.sub(pattern, instead, answer.strip())
    return answer


class Gsm8k(Answers):
    """A word problem of a few steps, and its number (GSM8K, arXiv:2110.14168).

        task("gsm8k").example()

        Question: Natalia sold clips to 48 of her friends in April, and then she sold half as many
        clips in May. How many clips did Natalia sell altogether in April and May?
        Answer:
        → 72

    chain=True learns to write the solution first (without the calculator's <<48/2=24>>) and the
    number behind ####; a reply without #### is wrong. The score is exact match of the number,
    1,000 = $1000 = 1000.00. Validation is a tenth carved from train, the same always; test is the
    official one. Levels: steps of the solution.
    """

    metric = "exact match"
    last_counts = True
    levels = ("2 steps", "3 steps", "4 steps", "5 steps", "6 steps or more")

    def __init__(
        self, chain: bool = False, tokenizer: str = "bytes", length: int | None = None,
        reply: int | None = None, graded: int = 100, data_dir: str | None = None,
    ) -> None:  # fmt: skip
        self.chain = chain

        def asked(row: dict[str, str]) -> Asked:
            steps, _, number = row["answer"].rpartition("####")
            plain_steps = re.sub(r"<<.*?>>", "", steps).strip()
            answer = f" {plain_steps}\n#### {number.strip()}" if chain else f" {number.strip()}"
            level = min(max(len(plain_steps.splitlines()), 2), 6) - 2
            return Asked(f"Question: {row['question'].strip()}\nAnswer:", answer, level)

        train, test = (
            [asked(row) for row in rows("openai/gsm8k", "main", split, data_dir,
                                        ("question", "answer"))]
            for split in ("train", "test")
        )  # fmt: skip
        self.part(train, test, tokenizer, (640, 512 if chain else 16), length, reply, graded)

    def right(self, target: str, predicted: str) -> float:
        if self.chain and "####" not in predicted:
            return 0.0
        return float(final_number(target) == final_number(predicted) != "")

    def commonest(self, answers: list[str]) -> str:  # type: ignore[override]
        return f"#### {super().commonest([final_number(a) for a in answers])}"


SUBJECTS = ("algebra", "counting_and_probability", "geometry", "intermediate_algebra",
            "number_theory", "prealgebra", "precalculus")  # fmt: skip


class Math(Answers):
    r"""A competition problem, and what its solution has in \boxed{…} (MATH, arXiv:2103.03874).

        Problem: What is the degree of the polynomial $(4 +5x^3 +100 +2\pi x^4)$?
        Answer:
        → 4

    chain=True learns to write the solution, the answer in its \boxed{…}; a reply without one is
    wrong. The score is exact match after spelling both the same way (fractions, units, degrees,
    blanks), as the paper does. `subject` is one of the seven, or all. Validation is a tenth carved
    from train, the same always; test is the official one. Levels: the problem's own, 1 to 5.

    From a folder: hendrycks_math/SUBJECT/{train,test}.jsonl with problem, level and solution.
    """

    metric = "exact match"
    last_counts = True
    levels = ("1", "2", "3", "4", "5", "unknown")
    subjects: ClassVar[dict[str, tuple[str, ...]]] = {
        "all": SUBJECTS,
        **{s: (s,) for s in SUBJECTS},
    }

    def __init__(
        self, chain: bool = False, subject: str = "all", tokenizer: str = "bytes",
        length: int | None = None, reply: int | None = None, graded: int = 100,
        data_dir: str | None = None,
    ) -> None:  # fmt: skip
        self.chain = chain

        def asked(row: dict[str, str]) -> Asked:
            final = boxed(row["solution"])
            if final is None:
                raise ValueError(f"solution {row['solution']!r}; expected \\boxed{{…}} in it")
            level = str(row["level"]).rpartition(" ")[2]
            answer = row["solution"].strip() if chain else final
            at = self.levels.index(level if level in self.levels else "unknown")
            return Asked(f"Problem: {row['problem'].strip()}\nAnswer:", f" {answer}", at)

        train, test = (
            [
                asked(row)
                for name in lookup("subject", subject, self.subjects)
                for row in rows("EleutherAI/hendrycks_math", name, split, data_dir,
                                ("problem", "level", "solution"))
            ]
            for split in ("train", "test")
        )  # fmt: skip
        self.part(train, test, tokenizer, (768, 768 if chain else 64), length, reply, graded)

    def right(self, target: str, predicted: str) -> float:
        answer = boxed(predicted) if self.chain else predicted
        wanted = boxed(target) if self.chain else target
        return float(None not in (answer, wanted) and plain(str(answer)) == plain(str(wanted)))

    def commonest(self, answers: list[str]) -> str:  # type: ignore[override]
        if not self.chain:
            return super().commonest(answers)
        return f"\\boxed{{{super().commonest([boxed(a) or '' for a in answers])}}}"
