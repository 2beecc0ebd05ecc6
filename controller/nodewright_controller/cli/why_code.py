"""`nodewright why code CODE`: what a code means, where to look and what to do, as the reference says."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

import click

from nodewright_controller.scheduling.reason_guide import GUIDE
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.type_reasons import TypeReason

_KNOWN: Final[dict[str, Reason | TypeReason]] = {
    reason.code: reason for reason in (*Reason, *TypeReason)
}
_NEAREST: Final = 5
_WIDTH: Final = 100
_INDENT: Final = 8
_UNBROKEN: Final = "\N{NO-BREAK SPACE}"


@click.command()
@click.argument("code")
def code(code: str) -> None:
    """Say what CODE means, such as P203 at the end of an event, and what to do about it."""
    asked = code.strip().strip("[]").upper()
    found = _KNOWN.get(asked)
    if found is None:
        raise click.ClickException(
            f"there is no code {asked or code!r}; the nearest are {', '.join(_near(asked))}"
        )
    for line in _lines(found):
        click.echo(line)


def _lines(found: Reason | TypeReason) -> Iterator[str]:
    """Yield one line for the sentence of the code, and rows for what is to be known about it."""
    sentence = re.sub(r"\{(\w+)\}", lambda slot: slot[1].upper(), found.template)
    yield f"{found.code} {found.verdict}: {sentence}"
    if isinstance(found, Reason):
        guide = GUIDE[found]
        rows = {"cause": guide.cause, "look": guide.check, "do": guide.cure}
    else:
        rows = {"cause": found.meaning, "do": found.cure}
    for name, text in rows.items():
        yield from _row(name, text)


def _row(name: str, text: str) -> Iterator[str]:
    """Yield a text behind its name; what stands in backquotes stays whole, so it can be copied."""
    whole = re.sub("`[^`]+`", lambda quoted: quoted[0].replace(" ", _UNBROKEN), text)
    for line in textwrap.wrap(
        whole,
        width=_WIDTH,
        initial_indent=f"{name:<{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield line.replace(_UNBROKEN, " ")


def _near(asked: str) -> list[str]:
    """Return the codes nearest to what was asked for: those of its letter, by three digits."""
    number = int(f"{re.sub('[^0-9]', '', asked):0<3}"[:3])
    of_letter = [one for one in _KNOWN if one[0] == asked[:1]] or list(_KNOWN)
    nearest = sorted(of_letter, key=lambda one: (abs(int(one[1:]) - number), one))
    return sorted(nearest[:_NEAREST])
