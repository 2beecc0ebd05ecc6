"""Cutting texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from nodewright_controller.kernel.text import shorten


def test_a_text_is_cut_at_a_word() -> None:
    assert shorten("no node has room for it", 15) == "no node has..."
    assert shorten("no node has room for it", 15, " …") == "no node …"


def test_a_text_that_fits_is_left_alone() -> None:
    assert shorten("größer", 8) == "größer"


@given(st.text(), st.integers(min_value=4, max_value=40))
def test_no_text_is_longer_than_asked(text: str, most: int) -> None:
    assert len(shorten(text, most).encode()) <= most
