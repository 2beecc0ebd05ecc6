"""Decoding forgives nulls and survives broken objects; encoding says what kind it is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from nodewright_controller.api.codec import Broken, decode, decode_all, encode
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import KubeObject, ObjectMeta
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool, NodePoolSpec

from tests.api import objects


def test_nulls_count_as_absent() -> None:
    found = decode(
        NodePool,
        b'{"metadata": {"name": "a", "labels": null},'
        b' "spec": {"template": {"spec": {"requirements": null}}, "disruption": null,'
        b' "limits": null}, "status": null}',
    )

    assert isinstance(found, NodePool)
    assert found.spec.template.spec.requirements == []
    assert found.spec.disruption.consolidate_after == "0s"


def test_unknown_fields_are_passed_over() -> None:
    assert isinstance(decode(NodePool, b'{"spec": {"fromTheFuture": 1}}'), NodePool)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b'{"metadata": {"name": "general"}, "spec": {"weight": "ten"}}',
            "NodePool general: spec.weight: Expected `int | null`, got `str`",
        ),
        (
            b'{"metadata": {"name": "general"},'
            b' "spec": {"disruption": {"budgets": [{"nodes": 1}]}}}',
            "NodePool general: spec.disruption.budgets[0].nodes: Expected `str`, got `int`",
        ),
        (b'{"metadata": "x"}', "NodePool ?: metadata: Expected `object`, got `str`"),
        (b"[]", "NodePool ?: expected an object"),
    ],
)
def test_a_broken_object_names_itself_and_its_field(data: bytes, sentence: str) -> None:
    found = decode(NodePool, data)

    assert isinstance(found, Broken)
    assert sentence == str(found)


def test_text_that_is_no_json_is_a_broken_object() -> None:
    found = decode(NodePool, b"{")

    assert isinstance(found, Broken)
    assert str(found).startswith("NodePool ?: no JSON: ")


def test_one_broken_object_does_not_hide_the_others() -> None:
    decoded = decode_all(
        NodePool,
        [
            b'{"metadata": {"name": "a"}}',
            b'{"metadata": {"name": "b"}, "spec": 3}',
            b'{"metadata": {"name": "c"}}',
        ],
    )

    assert [pool.name for pool in decoded.objects] == ["a", "c"]
    assert [broken.key for broken in decoded.broken] == ["b"]


def test_what_is_written_says_what_it_is() -> None:
    body = msgspec.json.decode(
        encode(NodePool(metadata=ObjectMeta(name="a"), spec=NodePoolSpec(weight=5)))
    )

    assert body["apiVersion"] == "karpenter.sh/v1"
    assert body["kind"] == "NodePool"
    assert body["spec"]["weight"] == 5


@settings(max_examples=150, deadline=None)
@given(objects.current_objects)
def test_reading_what_was_written_gives_the_same_object(body: dict[str, object]) -> None:
    kinds: dict[str, type[KubeObject]] = {
        "NodePool": NodePool,
        "NodeClaim": NodeClaim,
        "EC2NodeClass": EC2NodeClass,
    }
    kind: type[KubeObject] = kinds[str(body["kind"])]

    first = decode(kind, msgspec.json.encode(body))

    assert not isinstance(first, Broken), str(first)
    assert first == decode(kind, encode(first))
