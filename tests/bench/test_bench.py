"""The measurements themselves, in sizes that take seconds; the real ones are `make bench`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from nodewright_controller.scheduling.solver import solve
from nodewright_local.progress import ConsoleProgress

from tests.bench.__main__ import main, run
from tests.bench.cases import case, cases
from tests.bench.report import Result
from tests.parity.binary import BuildError

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def beside_karpenter() -> Result:
    try:
        return next(run([case("mix-500")], ConsoleProgress()))
    except BuildError as error:
        pytest.skip(str(error))


def test_the_mix_takes_no_more_nodes_and_money_than_karpenter(beside_karpenter: Result) -> None:
    ours, theirs = beside_karpenter.ours, beside_karpenter.same_pods

    assert theirs is not None
    assert theirs.usd_per_hour is not None
    assert ours.usd_per_hour is not None
    assert (ours.pods_placed, theirs.pods_placed) == (500, 500)
    assert ours.nodes <= theirs.nodes
    assert ours.usd_per_hour <= theirs.usd_per_hour * 1.001


def test_the_mix_is_placed_many_times_as_fast_as_karpenter_places_it(
    beside_karpenter: Result,
) -> None:
    assert beside_karpenter.benchmark is not None
    assert beside_karpenter.ours.pods_per_second > (20 * beside_karpenter.benchmark.pods_per_second)


def test_four_times_the_pods_take_about_four_times_as_long() -> None:
    def seconds(pods: int) -> float:
        problem = case(f"mix-{pods}").make()
        spans = []
        for _ in range(3):
            begun = time.perf_counter()
            solve(problem)
            spans.append(time.perf_counter() - begun)
        return min(spans)

    assert seconds(16000) < 8 * seconds(4000)


def test_each_group_of_cases_leaves_a_file_of_rows(tmp_path: Path) -> None:
    code = main(["--alone", "--sizes", "1", "1000", "--output", str(tmp_path)])

    groups = {one.group for one in cases()} | {"memory"}
    assert code == 0
    assert {path.stem for path in tmp_path.iterdir()} == groups
    for path in tmp_path.iterdir():
        for row in json.loads(path.read_text())["rows"]:
            assert set(row) == {"name", "ours", "karpenter", "unit", "ratio"}


def test_a_case_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="there is no case 'mix-many'"):
        case("mix-many")
