"""What counts as a change."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from nodewright_local.pulumi_aws.diff import ChangeKind, compare
from nodewright_local.pulumi_aws.schema import (
    Property,
    flag,
    mapping,
    number,
    output,
    policy,
    record,
    records,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import UNKNOWN

PROPERTIES = {
    "name": text(replaces=True, computed=True),
    "description": text(default="none"),
    "size": number(default=1),
    "public": flag(),
    "zones": texts(),
    "tags": mapping(),
    "policy": policy(),
    "network": record(
        {
            "cidr": text(computed=True),
            "open": flag(),
            "ids": texts(replaces=True),
            "id": output(),
        }
    ),
    "rules": records({"port": number(), "sources": texts()}),
    "arn": output(),
}


def paths(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[ChangeKind, bool]]:
    return {item.path: (item.kind, item.replaces) for item in compare(PROPERTIES, old, new)}


def test_an_absent_value_equals_its_default() -> None:
    state = {"description": "none", "size": 1, "public": False, "zones": [], "tags": {}}

    assert paths(state, {}) == {}


def test_a_value_that_aws_chose_is_no_change() -> None:
    assert paths({"name": "chosen", "network": {"cidr": "10.0.0.0/16"}}, {"network": {}}) == {}


def test_a_value_that_the_program_took_back_is_a_change() -> None:
    assert paths({"description": "old"}, {}) == {"description": (ChangeKind.DELETE, False)}


def test_what_aws_tells_and_a_program_cannot_set_is_no_change() -> None:
    assert paths({"arn": "a", "network": {"id": "n"}}, {"network": {}}) == {}


@given(st.lists(st.text(max_size=4), unique=True), st.randoms())
def test_the_order_of_a_set_means_nothing(zones: list[str], random: Any) -> None:
    shuffled = list(zones)
    random.shuffle(shuffled)

    assert paths({"zones": zones}, {"zones": shuffled}) == {}


def test_the_order_of_objects_in_a_set_means_nothing_at_any_depth() -> None:
    old = [{"port": 1, "sources": ["a", "b"]}, {"port": 2, "sources": []}]
    new = [{"port": 2}, {"port": 1, "sources": ["b", "a"]}]

    assert paths({"rules": old}, {"rules": new}) == {}


def test_maps_change_key_by_key_with_quoted_paths() -> None:
    changes = paths({"tags": {"a": "1", "x/y": "2"}}, {"tags": {"a": "3", "b": "4"}})

    assert changes == {
        "tags.a": (ChangeKind.UPDATE, False),
        "tags.b": (ChangeKind.ADD, False),
        'tags["x/y"]': (ChangeKind.DELETE, False),
    }


def test_objects_change_field_by_field_and_a_field_may_replace() -> None:
    old = {"network": {"cidr": "a", "open": False, "ids": ["1"]}}

    changes = paths(old, {"network": {"open": True, "ids": ["2"]}})

    assert changes == {
        "network.open": (ChangeKind.UPDATE, False),
        "network.ids": (ChangeKind.UPDATE, True),
    }


def test_a_replacing_object_replaces_whatever_field_changes() -> None:
    properties = {"scope": record({"type": text(), "namespaces": texts()}, replaces=True)}

    changes = compare(properties, {"scope": {"type": "cluster"}}, {"scope": {"type": "namespace"}})

    assert [(item.path, item.replaces) for item in changes] == [("scope.type", True)]


def test_policies_that_mean_the_same_are_no_change() -> None:
    old = (
        '{"Statement":[{"Effect":"Allow","Action":"s3:Get","Resource":["a"],'
        '"Principal":{"AWS":"arn:aws:iam::123456789012:root"}}],"Version":"2012-10-17"}'
    )
    new = (
        '{"Version":"2012-10-17","Statement":{"Sid":"","Effect":"Allow","Action":["s3:Get"],'
        '"Resource":"a","Principal":{"AWS":["123456789012"]}}}'
    )

    assert paths({"policy": old}, {"policy": new}) == {}


def test_policies_that_allow_more_are_a_change() -> None:
    old = '{"Statement":[{"Effect":"Allow","Action":"s3:Get","Resource":"a"}]}'

    changes = paths({"policy": old}, {"policy": old.replace("s3:Get", "s3:*")})

    assert changes == {"policy": (ChangeKind.UPDATE, False)}


def test_an_unknown_value_is_a_change_and_replaces_where_a_change_would() -> None:
    assert paths({"name": "a"}, {"name": UNKNOWN}) == {"name": (ChangeKind.UPDATE, True)}
    assert paths({"zones": ["a"]}, {"zones": ["a", UNKNOWN]}) == {
        "zones": (ChangeKind.UPDATE, False)
    }


def test_a_canonical_form_decides_when_a_property_has_one() -> None:
    properties = {"protocol": Property(canonical=lambda value: str(value).lower())}

    assert compare(properties, {"protocol": "TCP"}, {"protocol": "tcp"}) == ()
