"""Taints and tolerations, host ports, label selectors."""

from __future__ import annotations

import pytest
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import LabelSelector, LabelSelectorRequirement, Toleration
from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.constraints.selectors import Expression, Selector
from nodewright_controller.constraints.taints import is_ephemeral, tolerates_taint, untolerated

from tests.builders import taint, toleration


@pytest.mark.parametrize(
    ("given_toleration", "given_taint", "tolerated"),
    [
        ("k=v:NoSchedule", "k=v:NoSchedule", True),
        ("k=v:NoSchedule", "k=w:NoSchedule", False),
        ("k=v:NoSchedule", "k=v:NoExecute", False),
        ("k=v", "k=v:NoExecute", True),
        ("k", "k=anything:NoSchedule", True),
        ("*", "k=v:NoExecute", True),
        ("other", "k=v:NoSchedule", False),
    ],
)
def test_a_toleration_covers_its_key_value_and_effect(
    given_toleration: str, given_taint: str, tolerated: bool
) -> None:
    assert tolerates_taint(toleration(given_toleration), taint(given_taint)) is tolerated


@pytest.mark.parametrize(
    ("operator", "value", "tolerated"),
    [("Gt", "5", True), ("Gt", "10", False), ("Lt", "20", True), ("Lt", "x", False)],
)
def test_comparing_tolerations_read_the_value_as_an_integer(
    operator: str, value: str, tolerated: bool
) -> None:
    compared = Toleration(key="k", operator=operator, value=value)

    assert tolerates_taint(compared, taint("k=10:NoSchedule")) is tolerated


def test_soft_taints_count_unless_they_are_to_be_ignored() -> None:
    soft = taint("k:PreferNoSchedule")

    assert untolerated([], [soft]) == (soft,)
    assert untolerated([], [soft], ignore_preferences=True) == ()


def test_only_the_taints_of_a_starting_node_are_ephemeral() -> None:
    assert is_ephemeral(taint("node.kubernetes.io/not-ready:NoExecute"))
    assert is_ephemeral(taint("readiness.k8s.io/cni:NoSchedule"))
    assert is_ephemeral(Taint(key="karpenter.sh/unregistered", effect="NoExecute"))
    assert not is_ephemeral(taint("node.kubernetes.io/unreachable:NoExecute"))
    assert not is_ephemeral(taint("agent:NoSchedule"))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (HostPort("TCP", 80), HostPort("TCP", 80), True),
        (HostPort("TCP", 80), HostPort("UDP", 80), False),
        (HostPort("TCP", 80), HostPort("TCP", 81), False),
        (HostPort("TCP", 80, "10.0.0.1"), HostPort("TCP", 80, "10.0.0.2"), False),
        (HostPort("TCP", 80, "10.0.0.1"), HostPort("TCP", 80), True),
    ],
)
def test_ports_collide_on_one_protocol_number_and_address(
    one: HostPort, other: HostPort, conflict: bool
) -> None:
    assert one.conflicts(other) is conflict
    assert other.conflicts(one) is conflict


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not Selector.of(None).matches({"a": "1"})
    assert not Selector.of(None).requiring([Expression("a", "Exists")]).matches({"a": "1"})
    assert Selector.of(LabelSelector()).matches({})


def test_a_selector_holds_when_all_its_expressions_do() -> None:
    entries = [
        LabelSelectorRequirement(key="tier", operator="NotIn", values=["back"]),
        LabelSelectorRequirement(key="app", operator="Exists"),
    ]
    both = Selector.of(LabelSelector(match_labels={"app": "web"}, match_expressions=entries))

    assert both.matches({"app": "web"})
    assert not both.matches({"app": "web", "tier": "back"})
    assert not both.matches({"app": "db"})
    assert both.anchor() == ("app", "web")
