"""NodeOverlays: which one decides, and what prices and capacity become."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.nodeoverlay import NodeOverlay, NodeOverlaySpec, OverlayRequirement
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.overlay import (
    Overlaid,
    PoolTypes,
    overlay_types,
    read_overlay,
)
from nodewright_controller.constraints.requirements import Requirements

from tests.builders import instance_type, rules


def overlay(name: str, requires: str = "", **spec: Any) -> NodeOverlay:
    entries = [
        OverlayRequirement(key=key, operator=operator, values=values or None)
        for key, operator, values in rules(requires)
    ]
    return NodeOverlay(
        metadata=ObjectMeta(name=name), spec=NodeOverlaySpec(requirements=entries, **spec)
    )


LARGE = instance_type("m.large", zones={"a": 0.10}, spot={"a": 0.04})
XLARGE = instance_type("m.xlarge", zones={"a": 0.20})


def applied(*overlays: NodeOverlay, labels: dict[str, str] | None = None) -> Overlaid:
    pool = PoolTypes(labels=Requirements.of_labels(labels or {}), types=(LARGE, XLARGE))
    return overlay_types([read_overlay(one) for one in overlays], {"general": pool})


def prices(overlaid: Overlaid) -> dict[tuple[str, str], float]:
    return {
        (found.name, offering.capacity_type): round(offering.usd_per_hour, 6)
        for found in overlaid.types["general"]
        for offering in found.offerings
    }


def type_of(overlaid: Overlaid, name: str) -> InstanceType:
    return next(found for found in overlaid.types["general"] if found.name == name)


@pytest.mark.parametrize(
    ("change", "price"),
    [
        ({"price_adjustment": "-68%"}, 0.032),
        ({"price_adjustment": "+10%"}, 0.11),
        ({"price_adjustment": "+0.5"}, 0.6),
        ({"price_adjustment": "-1.2"}, 0.0),
        ({"price_adjustment": "-100%"}, 0.0),
        ({"price": "0.07"}, 0.07),
    ],
)
def test_a_price_is_replaced_shifted_or_scaled(change: dict[str, str], price: float) -> None:
    found = prices(applied(overlay("one", "type in m.large; capacity in on-demand", **change)))

    assert found == {
        ("m.large", "on-demand"): price,
        ("m.large", "spot"): 0.04,
        ("m.xlarge", "on-demand"): 0.2,
    }


def test_the_heavier_overlay_decides_and_the_lighter_keeps_the_rest() -> None:
    found = applied(
        overlay("all", price_adjustment="-50%"),
        overlay("exact", "type in m.large; capacity in on-demand", price="0.3", weight=10),
    )

    assert found.conflicts == ()
    assert prices(found) == {
        ("m.large", "on-demand"): 0.3,
        ("m.large", "spot"): 0.02,
        ("m.xlarge", "on-demand"): 0.1,
    }


def test_of_two_equal_overlays_the_one_earlier_in_the_alphabet_gives_way_entirely() -> None:
    found = applied(
        overlay("a", price="0.5"), overlay("b", "type in m.large; capacity in spot", price="0.01")
    )

    assert found.conflicts == ("a",)
    assert prices(found)[("m.large", "spot")] == 0.01
    assert prices(found)[("m.xlarge", "on-demand")] == 0.2


def test_capacity_is_added_and_untouched_types_stay_the_same_objects() -> None:
    found = applied(overlay("fuse", "type in m.large", capacity={"example.test/fuse": "2"}))

    assert type_of(found, "m.large").allocatable["example.test/fuse"] == 2
    assert type_of(found, "m.xlarge") is XLARGE


def test_an_overlay_may_ask_for_labels_of_the_pool() -> None:
    asked = overlay("teams", "team in a", price="1")

    assert prices(applied(asked, labels={"team": "a"}))[("m.large", "spot")] == 1.0
    assert applied(asked).types["general"] == (LARGE, XLARGE)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"price": "much"}, r"spec\.price"),
        ({"price_adjustment": "50%"}, "must begin with"),
        ({"price_adjustment": "+x%"}, "no amount"),
        ({"price": "1", "price_adjustment": "+1"}, "beside"),
        ({"capacity": {"example.test/fuse": "x"}}, r"example\.test/fuse"),
    ],
)
def test_an_overlay_that_cannot_be_read_names_the_field(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_overlay(overlay("odd", **spec))
