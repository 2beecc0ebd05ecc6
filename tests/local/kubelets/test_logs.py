"""What a reader of logs gets."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from nodewright_local.kubelets.logs import LogRequest, limit, parse_log_request, select
from nodewright_local.kubelets.pods.process import LogFile, previous_log

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LINES = [
    b"2026-01-01T11:59:00.000000000Z old\n",
    b"2026-01-01T11:59:50.123456000Z newer with spaces\n",
    b"2026-01-01T12:00:00.000000000Z newest\n",
]


def read(**query: str) -> list[bytes]:
    request = parse_log_request(query, NOW)
    return list(limit(select(LINES, request), request.limit_bytes))


def test_timestamps_are_shown_only_on_demand() -> None:
    assert read() == [b"old\n", b"newer with spaces\n", b"newest\n"]
    assert read(timestamps="true") == LINES


def test_the_last_lines_and_the_recent_lines_can_be_asked_for() -> None:
    assert read(tailLines="1") == [b"newest\n"]
    assert read(tailLines="0") == []
    assert read(tailLines="99") == read()
    assert read(sinceSeconds="30") == [b"newer with spaces\n", b"newest\n"]
    assert read(sinceTime="2026-01-01T12:00:00Z") == [b"newest\n"]
    assert read(sinceSeconds="30", tailLines="2") == [b"newer with spaces\n", b"newest\n"]


def test_output_is_cut_off_at_a_number_of_bytes() -> None:
    assert read(limitBytes="6") == [b"old\n", b"ne"]
    assert read(limitBytes="0") == []


def test_a_request_is_read_from_the_query() -> None:
    assert parse_log_request({"follow": "true", "previous": "1"}, NOW) == LogRequest(
        follow=True, previous=True
    )


@pytest.mark.parametrize("name", ["tailLines", "sinceSeconds", "limitBytes"])
def test_a_parameter_that_is_no_number_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        parse_log_request({name: "-1"}, NOW)


def test_output_in_pieces_becomes_whole_lines_and_each_run_has_its_file(tmp_path: Path) -> None:
    path = tmp_path / "pods" / "a_b_c.log"
    output = LogFile(path)

    output.start_run()
    output.write(b"first li")
    output.write(b"ne\nsecond\nunfini")
    output.write(b"shed")
    output.end_run()
    output.start_run()
    output.write(b"second run\n")
    output.end_run()

    def shown(file: Path) -> list[bytes]:
        return list(select(file.read_bytes().splitlines(keepends=True), LogRequest()))

    assert shown(previous_log(path)) == [b"first line\n", b"second\n", b"unfinished\n"]
    assert shown(path) == [b"second run\n"]
