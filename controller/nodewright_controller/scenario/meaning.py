"""Whether two texts say the same to a person: how expected words are found in our own wording.

Names, numbers and quoted values must all be there; of the ordinary words most of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from nodewright_controller.kernel.resources import MEMORY, amount, human_amount

_TOKEN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@%-]*")
_FILLER: Final = frozenset(
    """a an and are as at be by for from has have in is it its no not of on or outside the there to
    was were with without""".split()  # noqa: SIM905 - a list of words reads best as words
)
_KIND: Final = re.compile(r"[A-Z][a-z]+[A-Z]|Pod$|Node$|EC2")
_QUANTITY: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?[KMGT]i?")
_ENOUGH: Final = 0.6
_STEM: Final = 5


def says(text: str, meaning: str) -> bool:
    """Whether `text` has the names of `meaning`, and most of its other words."""
    tokens = [_plain(token) for token in _TOKEN.findall(text)]
    found = {*tokens, *(piece for token in tokens for piece in token.split(":"))}
    stems = {token[:_STEM] for token in found}
    names: list[str] = []
    words: list[str] = []
    previous = ""
    for position, token in enumerate(_TOKEN.findall(meaning)):
        plain = _plain(token)
        if _is_name(token, previous, first=position == 0):
            names.append(plain)
        elif plain not in _FILLER:
            words.append(plain)
        previous = token
    if not all(name in found for name in names):
        return False
    hits = sum(word[:_STEM] in stems for word in words)
    return not words or hits >= _ENOUGH * len(words)


def any_says(texts: Iterable[str], meaning: str) -> bool:
    """Whether one of the texts has this meaning."""
    return any(says(text, meaning) for text in texts)


def mentions(text: str, word: str) -> bool:
    """Whether the text contains the word, in any case.

    A number stands by itself; a quantity such as `64Gi` may also be written for people: `64 GiB`.
    """
    if word.isdigit():
        return re.search(rf"(?<![0-9.]){word}(?![0-9])", text) is not None
    forms = [word]
    if _QUANTITY.fullmatch(word):
        forms.append(human_amount(MEMORY, amount(MEMORY, word)))
    return any(form.lower() in text.lower() for form in forms)


def _plain(token: str) -> str:
    return token.strip(".:,-").lower()


def _is_name(token: str, previous: str, *, first: bool) -> bool:
    """Whether a token is a name or a number.

    It has a digit or punctuation, is followed by a colon, is written large, or follows a kind.
    """
    bare = token.strip(".,")
    if any(c.isdigit() or c in "-_./:@%" for c in bare):
        return True
    return _KIND.match(previous) is not None or (bare[:1].isupper() and not first)
