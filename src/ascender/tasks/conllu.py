"""CoNLL-U, the files of Universal Dependencies: words, tags and trees, every value checked.

    1  the     the    DET   _  _  2  det    _  _      ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL …
    2  cat     cat    NOUN  _  _  3  nsubj  _  _
    3  sleeps  sleep  VERB  _  _  0  root   _  _

Ten columns with tabs between them, an empty line behind every sentence, comments from #. Words
that are written together (3-4) and empty nodes (8.1) are left out; a relation loses its subtype
(obl:tmod → obl).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from ascender.common.validate import nearest

_TAGS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"
_RELATIONS = (
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse "
    "dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis "
    "punct reparandum root vocative xcomp"
)
TAGS, RELATIONS = tuple(_TAGS.split()), tuple(_RELATIONS.split())
COLUMNS = 10
TOGETHER = re.compile(r"\d+(-|\.)\d+")  # 3-4 and 8.1


class Sentence(NamedTuple):
    """Words, the place of each one's head (−1: the root), and indices into TAGS and RELATIONS."""

    words: tuple[str, ...]
    heads: tuple[int, ...]
    tags: tuple[int, ...]
    relations: tuple[int, ...]


class _Line(NamedTuple):
    """A word of a file, and where it stands."""

    number: int
    word: str
    tag: int
    head: int
    relation: int


def read(path: Path) -> list[Sentence]:
    """All sentences of a file. ValueError names the file, the line and the value."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; expected a CoNLL-U file there")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read ({error}); expected UTF-8") from None
    sentences: list[Sentence] = []
    lines: list[_Line] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            if lines:
                sentences.append(_sentence(path, lines))
            lines = []
        elif not line.startswith("#") and (word := _word(path, number, line, len(lines))):
            lines.append(word)
    if lines:  # the last one, without an empty line behind it
        sentences.append(_sentence(path, lines))
    if not sentences:
        raise ValueError(f"{path} has no sentences; expected at least one")
    return sentences


def _word(path: Path, number: int, line: str, before: int) -> _Line | None:
    """A line as a word; None where it is none of its own."""
    row = line.rstrip("\r").split("\t")
    if len(row) != COLUMNS:
        _wrong(path, number, "columns", len(row), f"{COLUMNS} with tabs between them")
    at, word, tag, head, relation = row[0], row[1], row[3], row[6], row[7].split(":")[0]
    if TOGETHER.fullmatch(at):
        return None
    if at != str(before + 1):
        _wrong(path, number, "ID", at, f"{before + 1}, the words counted from 1")
    if not word:
        _wrong(path, number, "FORM", word, "a word")
    if not head.isdecimal():
        _wrong(path, number, "HEAD", head, "the ID of a word, or 0 for the root")
    for name, value, known in (("UPOS", tag, TAGS), ("DEPREL", relation, RELATIONS)):
        if value not in known:
            _wrong(path, number, name, value, f"one of {', '.join(known)}", nearest(value, known))
    return _Line(number, word, TAGS.index(tag), int(head), RELATIONS.index(relation))


def _sentence(path: Path, lines: Sequence[_Line]) -> Sentence:
    """The words of a sentence, whose heads must make one tree."""
    for line in lines:
        if line.head > len(lines):
            _wrong(path, line.number, "HEAD", line.head, f"0 … {len(lines)}, its sentence's words")
    heads = [line.head - 1 for line in lines]
    roots = [line for line in lines if line.head == 0]
    if len(roots) != 1:
        named = ", ".join(str(line.number) for line in roots) or "none"
        first = f"the sentence from line {lines[0].number}"
        _wrong(path, lines[0].number, "roots", named, f"one line with HEAD 0 in {first}")
    reached = {-1}
    for start, line in enumerate(lines):
        way, at = set(), start
        while at not in reached:
            if at in way:
                _wrong(path, line.number, "HEAD", line.head, "a tree; its heads go in a circle")
            way.add(at)
            at = heads[at]
        reached |= way
    columns = [tuple(getattr(line, name) for line in lines) for name in ("word", "tag", "relation")]
    return Sentence(columns[0], tuple(heads), columns[1], columns[2])


def _wrong(
    path: Path, number: int, name: str, value: object, expected: str, near: str = ""
) -> NoReturn:
    raise ValueError(f"{path}, line {number}: {name} = {value!r}{near}; expected {expected}")


def treebank(folder: Path) -> dict[str, list[Sentence]]:
    """The sentences of a treebank's files, by split."""
    found = {}
    for split, short in (("train", "train"), ("validation", "dev"), ("test", "test")):
        files = sorted(folder.glob(f"*-ud-{short}.conllu"))
        if len(files) != 1:
            many = "no file" if not files else f"{len(files)} files"
            raise FileNotFoundError(
                f"{many} {folder}/*-ud-{short}.conllu; expected one, as Universal Dependencies "
                "names them (en_ewt-ud-train.conllu)"
            )
        found[split] = read(files[0])
    return found
