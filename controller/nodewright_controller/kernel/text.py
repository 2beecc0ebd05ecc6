"""Cutting texts to the sizes that the API server and people bear."""

from __future__ import annotations


def shorten(text: str, most_bytes: int, ending: str = "...") -> str:
    """Return a text of at most so many bytes in UTF-8, cut at a word and with `ending` if it is."""
    raw = text.encode()
    if len(raw) <= most_bytes:
        return text
    cut = raw[: max(0, most_bytes - len(ending.encode()))].decode("utf-8", "ignore")
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut) + ending
