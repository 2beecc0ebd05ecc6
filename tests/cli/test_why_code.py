"""`nodewright why code`: what a code means, without any cluster."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result
from nodewright_controller.cli.why import why
from nodewright_controller.scheduling.reason_guide import GUIDE
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.type_reasons import TypeReason


def ask(code: str) -> Result:
    return CliRunner().invoke(why, ["code", code])


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.code)
def test_cause_and_cure_are_those_of_the_guide(reason: Reason) -> None:
    result = ask(reason.code)

    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{reason.code} {reason.verdict}: ")
    guide = GUIDE[reason]
    told = words(result.output)
    for name, text in (("cause", guide.cause), ("look", guide.check), ("do", guide.cure)):
        assert f"{name} {text}" in told
    assert max(map(len, result.output.splitlines()[1:])) <= 100


def test_the_codes_of_types_are_known_too() -> None:
    assert f"do {TypeReason.WEIGHT.cure}" in words(ask("T103").output)


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.code)
def test_a_command_is_never_broken_over_two_lines(reason: Reason) -> None:
    assert all(line.count("`") % 2 == 0 for line in ask(reason.code).output.splitlines())


@pytest.mark.parametrize("written", ["p203", "[P203]", " P203 "])
def test_a_code_may_be_copied_as_it_stands_in_a_line(written: str) -> None:
    assert ask(written).output == ask("P203").output


def test_what_the_line_fills_in_is_in_capitals() -> None:
    first = ask("P203").output.splitlines()[0]

    assert first == "P203 blocked: volume claim CLAIM needs ASKED, which is not offered"


@pytest.mark.parametrize(
    ("code", "near"),
    [
        ("P209", "P204, P205, P206, P207, P208"),
        ("P20", "P201, P202"),
        ("P2003", "P201, P202"),
        ("T109", "T104, T105, T106, T108"),
        ("P999999999999", "P514"),
        ("Pabc", "P101"),
        ("Q203", "P203"),
        ("taint", "T101"),
        ("", "P101"),
    ],
)
def test_an_unknown_code_is_refused_with_those_near_to_it(code: str, near: str) -> None:
    result = ask(code)

    assert result.exit_code == 1
    assert result.output.startswith("Error: there is no code ")
    assert near in result.output
