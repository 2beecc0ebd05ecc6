"""Every reason of a pod is explained, and has an example that the product itself gives."""

from __future__ import annotations

import re

import pytest
from nodewright_controller.scheduling.reason_guide import GUIDE
from nodewright_controller.scheduling.reasons import Reason

from tests.scheduling.reason_moments import EXAMPLES

EACH = pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.code)


def test_every_reason_is_explained_and_has_an_example() -> None:
    assert set(GUIDE) == set(Reason)
    assert set(EXAMPLES) == set(Reason)


@EACH
def test_the_example_of_a_reason_has_its_code_and_verdict(reason: Reason) -> None:
    found = EXAMPLES[reason]()

    assert (found.code, found.verdict) == (reason.code, str(reason.verdict))
    assert found.line.startswith(f"pod/shop/cart-7d9x2 {reason.verdict}: ")
    assert found.line.endswith(f"  [{reason.code}]")


@EACH
def test_the_example_of_a_reason_is_its_sentence_and_no_other(reason: Reason) -> None:
    sentence = re.sub(r"\\\{\w+\\\}", ".+", re.escape(reason.template))

    assert re.search(f": {sentence}(?: \\(0/1 pools\\))?(?: → .+)?  \\[", EXAMPLES[reason]().line)


@EACH
def test_a_guide_is_short_and_in_whole_sentences(reason: Reason) -> None:
    guide = GUIDE[reason]

    for text in (guide.cause, guide.check, guide.cure):
        assert text[0].isupper() or text[0] in "`k"
        assert text.endswith(".")
        assert "  " not in text
        assert text.count("`") % 2 == 0
        assert len(text) <= 330


@EACH
def test_no_cure_gives_up_what_protects_running_pods(reason: Reason) -> None:
    assert not re.search("disruption ?budget|pdb|do-not-disrupt|force", GUIDE[reason].cure, re.I)


@EACH
def test_commands_in_a_guide_only_look(reason: Reason) -> None:
    commands = re.findall(r"`((?:kubectl|nodewright) [^`]+)`", GUIDE[reason].check)

    assert all(re.match(r"kubectl (get|describe|logs) |nodewright why ", one) for one in commands)
    assert not re.search(r"`(?:kubectl|nodewright)", GUIDE[reason].cure)
