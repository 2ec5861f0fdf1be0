"""Translated strings: one format, one lookup.

A report keeps its strings beside itself, as pairs of English and Korean under dotted keys:

    STRINGS = Strings({"title.claims": ("Claims and verdicts", "주장과 판정"), …})
    STRINGS.text("title.claims", "ko")
"""

from __future__ import annotations

from collections.abc import Sequence

from ascender.common.validate import lookup

LANGUAGES = ("en", "ko")
Pair = tuple[str, str]  # (English, Korean)


def languages(lang: str) -> tuple[str, ...]:
    """The languages of an option --lang: en, ko or both.

    >>> languages("both")
    ('en', 'ko')
    """
    return lookup("lang", lang, {"en": ("en",), "ko": ("ko",), "both": LANGUAGES})


def in_language(pair: Pair, lang: str) -> str:
    return pair[LANGUAGES.index(lang)]


class Strings(dict[str, Pair]):
    """Pairs by key. Fields fill the braces of a string; a field may be a pair itself."""

    def text(self, key: str, lang: str, /, **fields: object) -> str:
        """The string in one language.

        >>> strings = Strings({"won": ("{n} of {of} won", "{of} 중 {n} 우세")})
        >>> strings.text("won", "en", n=2, of=("tasks", "과제"))
        '2 of tasks won'
        """
        return in_language(self.pair(key, **fields), lang)

    def pair(self, key: str, /, **fields: object) -> Pair:
        """The string in both languages."""
        pair = lookup("string", key, self)
        if not fields:
            return pair
        en, ko = (
            text.format(**{k: v[i] if isinstance(v, tuple) else v for k, v in fields.items()})
            for i, text in enumerate(pair)
        )
        return en, ko

    def texts(self, lang: str) -> dict[str, str]:
        """All strings in one language."""
        at = LANGUAGES.index(lookup("lang", lang, dict.fromkeys(LANGUAGES, lang)))
        return {key: pair[at] for key, pair in self.items()}

    def section(self, prefix: str) -> dict[str, Pair]:
        """The strings whose keys start with `prefix.`, by the rest of the key."""
        start = f"{prefix}."
        return {k.removeprefix(start): v for k, v in self.items() if k.startswith(start)}


def same(text: str) -> Pair:
    """Text that both languages share."""
    return text, text


def joined(*pairs: Pair, joint: str = "") -> Pair:
    """Pairs one after the other, language by language."""
    return joint.join(en for en, _ in pairs), joint.join(ko for _, ko in pairs)


def listed(pairs: Sequence[Pair]) -> Pair:
    """a, b, c in each language."""
    return joined(*pairs, joint=", ")
