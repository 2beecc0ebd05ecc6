"""Every case in this folder, through the controller's own decisions.

Cases whose steps are not there yet are listed, and must say so: the list shrinks with the steps.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from nodewright_controller.scenario.cases import check_case, run_folder
from nodewright_controller.scenario.compare import differences
from nodewright_controller.scenario.files import read_expected, read_folder
from nodewright_controller.scenario.loading import load_world
from nodewright_controller.scenario.report import as_words
from nodewright_controller.scenario.runner import PLANNED, run

CASES = Path(__file__).parent / "cases"
ALL = sorted(found.parent for found in CASES.glob("*/input.yaml"))


def _steps(folder: Path) -> tuple[str, ...]:
    return load_world(read_folder(folder)).scenario.steps


PLANNED_ONLY = [folder for folder in ALL if PLANNED & set(_steps(folder))]
NOW = [folder for folder in ALL if folder not in PLANNED_ONLY]


def _name(folder: Path) -> str:
    return folder.name


@pytest.mark.parametrize("folder", NOW, ids=_name)
def test_a_case_has_the_outcome_that_it_demands(folder: Path) -> None:
    assert check_case(folder).line == f"ok  {folder.name}"


@pytest.mark.parametrize("folder", PLANNED_ONLY, ids=_name)
def test_a_case_with_a_step_that_is_not_there_says_so(folder: Path) -> None:
    checked = check_case(folder)

    assert not checked.passed
    assert "is not there yet" in checked.line


@pytest.mark.parametrize("folder", NOW, ids=_name)
def test_an_outcome_that_is_changed_in_one_place_does_not_hold(folder: Path) -> None:
    expected = read_expected(folder)
    outcome = run(load_world(read_folder(folder)), expected)
    assert differences(expected, outcome) == ()

    for path, changed in _changed(expected):
        found = differences(changed, outcome)

        assert found, f"{path} was changed, and the case still passes"


_FREE = ("neverInstanceTypes", "forbidden", "notOffering", "excluded")
"""Keys that forbid: one more thing that does not happen is no mistake."""


def _changed(expected: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in _leaves(expected, ()):
        if any(part in _FREE for part in path):
            continue
        whole: Any = copy.deepcopy(dict(expected))
        holder = whole
        for part in path[:-1]:
            holder = holder[part]
        holder[path[-1]] = _other(path, holder[path[-1]])
        yield ".".join(map(str, path)), whole


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for position, item in enumerate(value):
            yield from _leaves(item, (*path, position))
    else:
        yield path


def _other(path: tuple[Any, ...], value: Any) -> Any:
    if path[-1] in ("createFleetCallsAtMost",):
        return 0
    if path[-1] in ("daemonOverhead", "pods", "cpu", "memory", "ephemeral-storage") and isinstance(
        value, str
    ):
        return "77"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return ["nonesuch"] if path[-1] == "podsAnyOf" else [*value, _stranger(value)]
    if isinstance(value, Mapping):
        return {"nonesuch": ["nonesuch"]}
    return "17m" if path[-1] in ("retrySpotAfter", "for") else "nonesuch"


def _stranger(values: list[Any]) -> Any:
    """Return an item like the others that is true of nothing."""
    return 1 if values and isinstance(values[0], int) else "nonesuch"


def test_there_are_cases() -> None:
    assert len(NOW) > 30


@pytest.mark.parametrize("folder", NOW, ids=_name)
def test_what_run_prints_passes_check_as_the_expected_block(folder: Path, tmp_path: Path) -> None:
    words = json.dumps(as_words(run_folder(folder)), indent=2)
    again = tmp_path / folder.name
    again.mkdir()
    shutil.copy(folder / "input.yaml", again)
    (again / "expected.md").write_text(f"## Must happen\n\n```yaml\n{words}\n```\n")

    assert check_case(again).line == f"ok  {folder.name}"
