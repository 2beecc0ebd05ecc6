"""`nodewright why` about worlds in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from nodewright_controller.cli.why import why

CASES = Path(__file__).parent / "cases"


def ask(pod: str, case: str, *options: str) -> str:
    folder = next(CASES.glob(f"{case}-*"))
    result = CliRunner().invoke(why, ["pod", pod, "--world", str(folder), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_line_comes_before_the_tree() -> None:
    lines = ask("shop/stubborn", "12").splitlines()

    assert lines[0].startswith("pod/shop/stubborn blocked: pool tight: no instance type fits")
    assert lines[1] == "blocked · checked 2030-01-02T10:00:00Z  [P104]"
    assert "needs   500m cpu · 6 GiB memory · 1 pod" in lines
    assert "pools   0 of 2 can build one" in lines


def test_the_tree_says_what_running_nodes_lack() -> None:
    tree = ask("ledger-4", "01", "-o", "tree")

    assert "nodes   0 of 3 fit   volume zone 2 · cpu 1 (nearest n-b lacks 1100m cpu)" in tree
    assert "because its volume claim shop/data-ledger-4 is there" in tree


def test_a_claim_in_flight_that_is_elsewhere_is_counted_apart() -> None:
    assert "coming  0 of 2 fit   zone 2" in ask("shop/late", "11")


def test_a_pod_that_waits_for_its_own_volume_asks_no_pool() -> None:
    tree = ask("shop/alpha", "17", "-o", "tree")

    assert "pools   not asked: the pod itself has to wait" in tree


@pytest.mark.parametrize(
    ("pod", "case", "line"),
    [
        ("shop/quote-old", "03", "placed: it is on node/a1  [P511]"),
        (
            "shop/front-0",
            "103",
            "coming: node/n-a has room for it → when kube-scheduler binds it  [P508]",
        ),
        (
            "shop/hungry",
            "12",
            "coming: pool roomy makes r9.large on-demand in eu-test-1a, $0.1300/h"
            " → in the next round  [P507]",
        ),
        (
            "shop/gated",
            "132",
            "held: scheduling gate example.test/hold is closed → when the gate is gone  [P503]",
        ),
        ("shop/done", "132", "not ours: it has ended (Succeeded)  [P512]"),
        (
            "shop/placed",
            "132",
            "coming: it preempts others on node/elsewhere → when they are gone  [P509]",
        ),
    ],
)
def test_a_pod_that_lacks_nothing_has_one_line(pod: str, case: str, line: str) -> None:
    assert ask(pod, case) == f"pod/{pod} {line}\n"


def test_fixes_that_the_solver_has_proven_are_listed() -> None:
    tree = ask("shop/late", "11", "-o", "tree")

    assert "fixes   raise the limit of pool apps by 2 cpu (proven)" in tree


def test_json_has_every_pool_and_miss() -> None:
    found = json.loads(ask("shop/stranger", "112", "-o", "json"))

    assert found["verdict"] == "blocked"
    assert {pool["name"]: len(pool["misses"]) for pool in found["pools"]} == {
        "soft": 1,
        "closed": 1,
    }


def test_a_pod_that_is_not_there_is_answered_with_those_like_it() -> None:
    folder = next(CASES.glob("12-*"))

    result = CliRunner().invoke(why, ["pod", "shop/stubbern", "--world", str(folder)])

    assert result.exit_code == 1
    assert "there is no pod shop/stubbern; there is shop/stubborn" in result.output


# Instance types.


def ask_type(claim: str, case: str, *options: str) -> str:
    folder = next(CASES.glob(f"{case}-*"))
    result = CliRunner().invoke(why, ["type", claim, "--world", str(folder), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_claim_that_the_next_round_makes_is_explained() -> None:
    lines = ask_type("fast-1", "108").splitlines()

    assert lines[0] == (
        "claim/fast-1 chosen: pool fast outweighs cheaper pool cheap: c9.large on-demand in"
        " eu-test-1a at $0.1500/h, +$0.0500/h (1 pod)  [T103]"
    )
    assert "pool    fast" in lines


def test_claim_is_another_word_for_type() -> None:
    folder = str(next(CASES.glob("113-*")))

    result = CliRunner().invoke(why, ["claim", "apps-1", "--world", folder, "-o", "line"])

    assert "from reservation cr-1 (1 pod)  [T108]" in result.stdout


def test_json_of_a_type_has_the_whole_ranking() -> None:
    found = json.loads(ask_type("wide-1", "110", "-o", "json"))

    assert found["code"] == "T101"
    assert found["funnel"]["types"] == 3
    assert [offer["chosen"] for offer in found["ranking"]].count(True) == 1


def test_a_claim_that_is_not_there_is_answered_with_those_that_are() -> None:
    folder = str(next(CASES.glob("108-*")))

    result = CliRunner().invoke(why, ["type", "nope", "--world", folder])

    assert result.exit_code == 1
    assert "there is no NodeClaim nope; there is fast-1, cheap-2" in result.output
