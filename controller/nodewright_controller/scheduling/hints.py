"""What a person probably meant by a label that nothing has.

A hint is offered only where it is hard to read otherwise: the same letters with other separators or
case, the same name in another domain, or one or two letters wrong. Values are compared by the first
rule alone, because `us-west-2a` and `us-west-2b` are near and yet never meant for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

_NEAR: Final = 0.84
_SEPARATORS: Final = str.maketrans("", "", "-_. ")


def plain(text: str) -> str:
    """Return the text without case and separators."""
    return text.lower().translate(_SEPARATORS)


def near_label(asked: str, known: Iterable[str]) -> str:
    """Return the known label that was probably meant, or an empty text."""
    best: tuple[float, str] | None = None
    for candidate in sorted(known):
        if candidate == asked:
            continue
        score = _likeness(asked, candidate)
        if score >= _NEAR and (best is None or score > best[0]):
            best = (score, candidate)
    return best[1] if best is not None else ""


@lru_cache(maxsize=4096)
def _likeness(asked: str, candidate: str) -> float:
    if plain(asked) == plain(candidate):
        return 3.0
    mine, theirs = _name(asked), _name(candidate)
    if plain(mine) == plain(theirs):
        return 2.0
    if len(mine) < 4 or len(theirs) < 4:
        return 0.0
    return SequenceMatcher(None, plain(mine), plain(theirs)).ratio()


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def near_value(asked: str, known: Iterable[str]) -> str:
    """Return the known value that is written like the asked one, or an empty text."""
    wanted = plain(asked)
    return next((v for v in sorted(known) if v != asked and plain(v) == wanted), "")


def names_like(asked: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to five known keys whose name begins like that of the asked one, sorted."""
    stem = _name(asked)[:3]
    return tuple(sorted(key for key in known if stem and _name(key).startswith(stem))[:5])


def setter_of(key: str, pools: Mapping[str, Iterable[str]]) -> str:
    """Return who gives nodes the label, for a person: pools by name, or the cloud."""
    setting = sorted(name for name, keys in pools.items() if key in set(keys))
    if not setting:
        return "every node's instance type"
    more = f" and {len(setting) - 1} more" if len(setting) > 1 else ""
    return f"pool {setting[0]}{more}"
