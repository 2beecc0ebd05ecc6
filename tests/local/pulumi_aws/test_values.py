"""The wire form of property values."""

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st
from nodewright_local.pulumi_aws.values import (
    UNKNOWN,
    UnsupportedValueError,
    Values,
    decode,
    encode,
    has_unknown,
)

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
ASSET = "c44067f5952c0a294b673a41bacd8c17"
UNKNOWN_LIST = "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2"

plain = st.recursive(
    st.booleans()
    | st.integers(min_value=-(2**50), max_value=2**50)
    | st.text(max_size=20)
    | st.just(UNKNOWN),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def wire(document: dict[str, object]) -> Struct:
    return ParseDict(document, Struct())


@given(st.dictionaries(st.text(max_size=8), plain, max_size=6))
def test_what_is_encoded_decodes_to_the_same(values: Values) -> None:
    assert decode(encode(values)).values == values


@given(st.dictionaries(st.text(min_size=1, max_size=8), plain, min_size=1, max_size=4))
def test_properties_marked_secret_come_back_secret(values: Values) -> None:
    bag = decode(encode(values, secrets=values))

    assert bag.values == values
    assert bag.secrets == frozenset(values)


def test_a_secret_deep_inside_makes_its_property_secret() -> None:
    secret = {SIGNATURE: SECRET, "value": "hidden"}

    bag = decode(wire({"settings": {"list": [{"password": secret}]}, "name": "open"}))

    assert bag.values == {"settings": {"list": [{"password": "hidden"}]}, "name": "open"}
    assert bag.secrets == {"settings"}


def test_an_output_without_a_value_is_unknown() -> None:
    output = {SIGNATURE: OUTPUT, "secret": True, "dependencies": ["urn"]}

    bag = decode(wire({"arn": output}))

    assert bag.values == {"arn": UNKNOWN}
    assert bag.secrets == {"arn"}


def test_every_kind_of_unknown_is_one_unknown() -> None:
    assert decode(wire({"subnetIds": UNKNOWN_LIST})).values == {"subnetIds": UNKNOWN}


def test_whole_numbers_come_back_as_integers() -> None:
    values = decode(wire({"port": 443, "ratio": 0.5})).values

    assert values == {"port": 443, "ratio": 0.5}
    assert isinstance(values["port"], int)


def test_null_counts_as_absent() -> None:
    assert decode(wire({"description": None})).values == {}


def test_an_asset_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedValueError, match=r"code\.file"):
        decode(wire({"code": {"file": {SIGNATURE: ASSET, "text": "x"}}}))


def test_unknown_is_found_at_any_depth() -> None:
    assert has_unknown({"a": [1, {"b": UNKNOWN}]})
    assert not has_unknown({"a": [1, {"b": "known"}]})
