"""The author's own text, from a YAML file: title, names, abstract, conclusion, captions. A sentence
may name the claim that it makes; it is then printed beside the verdict of that claim.

    ascender paper DIR --template        writes an empty draft.yaml with the claims of DIR
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ascender.common.files import Damaged, read_text, reason
from ascender.common.validate import nearest, need
from ascender.lab.bundle import Claim
from ascender.lab.paper.document import Text, marked_up
from ascender.report.strings import LANGUAGES, Pair, same

EXPECTED = "YAML as `ascender paper --template` writes it"
FIGURES = ("figure1", "figure2", "figure3", "figure4", "figure5")
TABLES = ("efficiency", "quality", "interpretability")
KEYS = ("title", "authors", "abstract", "conclusion", "captions")
SENTENCE = (*LANGUAGES, "claim")


@dataclass(frozen=True)
class Sentence:
    """`where`: its place in the file, such as abstract[1]; `claims`: their numbers, from 1."""

    where: str
    pair: Pair
    claims: tuple[int, ...] = ()

    @property
    def text(self) -> Text:
        """With the markup of a document, without fields."""
        return marked_up(self.pair)


@dataclass(frozen=True)
class AuthorText:
    """What a file says; nothing of what it leaves out."""

    title: Pair | None = None
    authors: tuple[str, ...] = ()
    abstract: tuple[Sentence, ...] = ()
    conclusion: tuple[Sentence, ...] = ()
    captions: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)

    def sentences(self) -> list[Sentence]:
        """All, in the order of the paper."""
        captions = (s for name in (*FIGURES, *TABLES) for s in self.captions.get(name, ()))
        return [*self.abstract, *captions, *self.conclusion]


class Wrong(ValueError):
    """A value of the file that is not what it should be."""

    def __init__(self, path: Path, key: str, value: object, expected: str) -> None:
        said = reason(repr(value), 60)
        super().__init__(f"{path}: {key} = {said}; expected {expected}")


def read_author(path: Path, stated: Sequence[Claim]) -> AuthorText:
    """Of a file; `stated`: the claims that its sentences may name."""
    need("yaml", "lab")
    import yaml

    try:
        content = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise Damaged(path, error, EXPECTED) from None
    reader = _Reader(path, tuple(stated))
    fields = reader.mapping("the file", {} if content is None else content, KEYS)
    captions = reader.mapping("captions", fields.get("captions") or {}, (*FIGURES, *TABLES))
    title = fields.get("title")
    return AuthorText(
        None if not title else reader.pair("title", title),
        tuple(reader.names("authors", fields.get("authors"))),
        reader.sentences("abstract", fields.get("abstract")),
        reader.sentences("conclusion", fields.get("conclusion")),
        {name: reader.sentences(f"captions.{name}", x) for name, x in captions.items()},
    )


@dataclass(frozen=True)
class _Reader:
    path: Path
    stated: tuple[Claim, ...]

    def mapping(self, key: str, value: Any, known: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Wrong(self.path, key, value, f"keys {', '.join(known)}")
        for name in value:
            if name not in known:
                raise ValueError(
                    f"{self.path}: {key} has an unknown key {name!r}{nearest(str(name), known)}; "
                    f"expected one of {', '.join(known)}"
                )
        return value

    def names(self, key: str, value: Any) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise Wrong(self.path, key, value, "a list of names")
        return value

    def pair(self, key: str, value: Any) -> Pair:
        """Text of one language stands for both."""
        if isinstance(value, str):
            return same(value.strip())
        there = self.mapping(key, value, LANGUAGES)
        for lang, side in there.items():
            if side is not None and not isinstance(side, str):
                raise Wrong(self.path, f"{key}.{lang}", side, "text")
        en, ko = ((there.get(lang) or "").strip() for lang in LANGUAGES)
        if not en and not ko:
            raise Wrong(self.path, key, value, "text, or {en: text, ko: text}")
        return en or ko, ko or en

    def sentences(self, key: str, value: Any) -> tuple[Sentence, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise Wrong(self.path, key, value, "a list of sentences")
        return tuple(self.sentence(f"{key}[{i}]", one) for i, one in enumerate(value, 1))

    def sentence(self, key: str, value: Any) -> Sentence:
        if isinstance(value, str) and value.strip():
            return Sentence(key, same(value.strip()))
        if not isinstance(value, dict):
            raise Wrong(self.path, key, value, "a sentence, or {en: …, ko: …, claim: …}")
        there = self.mapping(key, value, SENTENCE)
        pair = self.pair(key, {lang: there.get(lang) for lang in LANGUAGES})
        named = there.get("claim")
        if named is None:
            return Sentence(key, pair)
        several = named if isinstance(named, list) else [named]
        return Sentence(key, pair, tuple(self.claim(f"{key}.claim", one) for one in several))

    def claim(self, key: str, value: Any) -> int:
        """By its number, or by its own sentence."""
        for n, claim in enumerate(self.stated, 1):
            said = value.strip().rstrip(".") if isinstance(value, str) else None
            if value == n and not isinstance(value, bool):
                return n
            if said in (claim.text.rstrip("."), claim.text_ko.rstrip(".")):
                return n
        n = len(self.stated)
        expected = f"a number from 1 to {n}, or the sentence of a claim" if n else (
            "none, since these trials have no claims")  # fmt: skip
        raise Wrong(self.path, key, value, expected)


TEMPLATE = """\
# The author's text of `ascender paper DIR --text draft.yaml`. Leave out what you do not need.
#
# A sentence is a text, or has a text in each language and the claim that it makes, by its number:
#
#   abstract:
#     - We compare two kinds of attention.
#     - {{en: "It is more accurate.", ko: "더 정확하다.", claim: 1}}
#     - {{en: "It is faster, too.", claim: [2, 3]}}
#
# It is printed beside the verdict of its claim. Text may have $math$, `code`, **strong words**,
# [@key] of references.bib, and [#tab:draft_quality] or [#fig:pareto] for their numbers.
#
{claims}
title:            # or {{en: …, ko: …}}
authors: []
abstract: []
conclusion: []
captions:         # each a list of sentences, below our own caption
{captions}
"""


def template(stated: Sequence[Claim] = ()) -> str:
    """An empty file, with the claims as remarks."""
    lines = [f"#   {n:2}  {claim.text}" for n, claim in enumerate(stated, 1)]
    said = ["# Claims of these trials:", *lines] if lines else [
        "# `ascender paper DIR --template` lists the claims of DIR here."]  # fmt: skip
    captions = [f"  {name}: []" for name in (*FIGURES, *TABLES)]
    return TEMPLATE.format(claims="\n".join([*said, ""]), captions="\n".join(captions))
