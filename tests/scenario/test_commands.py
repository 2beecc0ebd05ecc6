"""`nodewright scenario` as a person types it."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

from click.testing import CliRunner
from nodewright_controller.cli.scenario import scenario

CASES = Path(__file__).parent / "cases"


def test_check_prints_a_line_per_case_and_a_sum() -> None:
    result = CliRunner().invoke(
        scenario,
        [
            "check",
            str(CASES / "06-host-port-taken-by-a-daemon"),
            str(CASES / "108-weight-comes-before-price"),
        ],
    )

    assert result.output.splitlines() == [
        "ok  06-host-port-taken-by-a-daemon",
        "ok  108-weight-comes-before-price",
        "2 passed, 0 failed",
    ]
    assert result.exit_code == 0


def test_check_fails_with_what_differs(tmp_path: Path) -> None:
    good = CASES / "108-weight-comes-before-price"
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "input.yaml").write_text((good / "input.yaml").read_text())
    (tmp_path / "wrong" / "expected.md").write_text(
        "## Must happen\n\n```yaml\npendingCount: 3\nsurprise: 1\n```\n"
    )

    result = CliRunner().invoke(scenario, ["check", str(tmp_path)])

    assert result.output.splitlines() == [
        "FAIL wrong: pendingCount: 0, not 3; surprise: is not a known key",
        "0 passed, 1 failed",
    ]
    assert result.exit_code == 1


def test_check_of_a_folder_that_is_none_fails_that_case_only(tmp_path: Path) -> None:
    good = CASES / "108-weight-comes-before-price"

    result = CliRunner().invoke(scenario, ["check", str(tmp_path / "nowhere"), str(good)])

    assert "FAIL nowhere: files: " in result.output
    assert result.output.endswith("1 passed, 1 failed\n")
    assert result.exit_code == 1


def test_check_passes_over_a_file_beside_the_folders() -> None:
    folder, file = CASES / "108-weight-comes-before-price", CASES / "README.md"

    beside = CliRunner().invoke(scenario, ["check", str(folder), str(file)])
    alone = CliRunner().invoke(scenario, ["check", str(file)])

    assert beside.exit_code == 0
    assert beside.stdout.splitlines()[-1] == "1 passed, 0 failed"
    assert f"passed over {file}" in beside.stderr
    assert alone.exit_code == 1


def test_run_prints_what_happened_in_the_words_of_the_vocabulary() -> None:
    folder = CASES / "06-host-port-taken-by-a-daemon"

    result = CliRunner().invoke(scenario, ["run", str(folder), "--json"])

    found = json.loads(result.output)
    assert found["newNodeClaims"][0]["pods"] == ["probe-udp-0"]
    assert found["pending"] == ["probe-tcp-0"]
    assert found["pendingErrors"] == {"probe-tcp-0": "host-port-conflict"}
    assert found["afterRounds"]["3"]["totalNodeClaims"] == 1


def test_run_prints_lines_for_a_person() -> None:
    result = CliRunner().invoke(scenario, ["run", str(CASES / "19-disruption-budget-calendar")])

    assert "cal at 2030-01-02T10:00:00Z: Drifted 0, Empty 2, Underutilized 2" in result.output
    assert "hint: gap: reasons Drifted, Underutilized have no budget" in result.output


def test_the_command_is_installed() -> None:
    points = metadata.entry_points(group="nodewright.commands", name="scenario")

    assert [point.load() for point in points] == [scenario]
