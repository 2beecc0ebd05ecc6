"""Names for resources whose program gives none."""

import re

import pytest
from nodewright_local.pulumi_aws.names import NameRefusedError, Naming, NamingMode, make_name
from nodewright_local.pulumi_aws.schema import AutoName

RULE = AutoName(max_length=20)


def test_a_name_is_the_logical_name_and_seven_hex_digits() -> None:
    assert re.fullmatch(r"node-[0-9a-f]{7}", make_name(RULE, Naming(logical_name="node"), {}))


def test_the_same_seed_gives_the_same_name_and_another_one_another() -> None:
    names = [
        make_name(RULE, Naming(logical_name="n", seed=seed), {}) for seed in (b"a", b"a", b"b")
    ]

    assert names[0] == names[1] != names[2]


def test_a_chosen_prefix_takes_the_place_of_the_logical_name() -> None:
    name = make_name(RULE, Naming(logical_name="node"), {"namePrefix": "app-"})

    assert re.fullmatch(r"app-[0-9a-f]{7}", name)


def test_what_aws_demands_around_a_name_is_added() -> None:
    fifo = AutoName(suffix=lambda inputs: ".fifo" if inputs.get("fifoQueue") else "")
    alias = AutoName(prefix="alias/")

    assert make_name(fifo, Naming(logical_name="q"), {"fifoQueue": True}).endswith(".fifo")
    assert make_name(alias, Naming(logical_name="k"), {}).startswith("alias/k-")


def test_the_stack_may_propose_names() -> None:
    naming = Naming(logical_name="q", proposed="demo-q")

    assert make_name(AutoName(suffix=lambda _: ".fifo"), naming, {}) == "demo-q.fifo"


def test_an_enforced_name_is_taken_as_it_is() -> None:
    naming = Naming(logical_name="q", proposed="exactly", mode=NamingMode.ENFORCE)

    assert make_name(AutoName(suffix=lambda _: ".fifo"), naming, {}) == "exactly"


def test_a_stack_without_automatic_names_demands_one() -> None:
    with pytest.raises(NameRefusedError, match="name is not set"):
        make_name(RULE, Naming(logical_name="q", mode=NamingMode.DISABLE), {})


def test_a_name_that_aws_would_refuse_is_refused_with_the_way_out() -> None:
    with pytest.raises(NameRefusedError, match="AWS allows 20: set name, or shorten"):
        make_name(RULE, Naming(logical_name="far-too-long-a-name"), {})
