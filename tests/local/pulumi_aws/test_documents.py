"""When two JSON documents mean the same."""

import json

from nodewright_local.pulumi_aws.documents import canonical_json, canonical_policy


def statement(**parts: object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **parts}]})


def test_everybody_can_be_written_in_two_ways() -> None:
    star = canonical_policy(statement(Principal="*"))

    assert star == canonical_policy(statement(Principal={"AWS": "*"}))


def test_condition_values_may_be_single_or_boolean() -> None:
    one = canonical_policy(statement(Condition={"Bool": {"aws:SecureTransport": False}}))
    two = canonical_policy(statement(Condition={"Bool": {"aws:SecureTransport": ["false"]}}))

    assert one == two


def test_the_order_of_statements_means_nothing() -> None:
    first = {"Effect": "Allow", "Action": "a", "Resource": "*"}
    second = {"Effect": "Deny", "Action": "b", "Resource": "*"}

    assert canonical_policy(json.dumps({"Statement": [first, second]})) == canonical_policy(
        json.dumps({"Statement": [second, first]})
    )


def test_an_effect_is_not_lost() -> None:
    assert canonical_policy(statement(Action="a")) != canonical_policy(
        statement(Action="a").replace("Allow", "Deny")
    )


def test_other_json_is_compared_by_value_and_text_stays_text() -> None:
    assert canonical_json('{"b": 1, "a": 2}') == canonical_json('{"a":2,"b":1}')
    assert canonical_json("not json") == "not json"
    assert canonical_json("") is None
