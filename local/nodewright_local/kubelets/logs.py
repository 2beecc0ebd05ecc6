"""Container logs: where they lie, and which part of them a reader asked for.

Lines begin with an RFC 3339 timestamp and a space (``pods.process.LogFile`` writes them).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path


def container_log(logs_dir: Path, namespace: str, pod: str, container: str) -> Path:
    """Return the log file of a container's current run."""
    return logs_dir / "pods" / f"{namespace}_{pod}_{container}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """What ``kubectl logs`` asked for."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


def parse_log_request(query: Mapping[str, str], now: datetime) -> LogRequest:
    """Read the query of ``/containerLogs``; ValueError names a parameter that is no number."""
    since: datetime | None = None
    if query.get("sinceSeconds"):
        since = now - timedelta(seconds=_count(query, "sinceSeconds"))
    elif query.get("sinceTime"):
        since = datetime.fromisoformat(query["sinceTime"])
    return LogRequest(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_count(query, "tailLines") if query.get("tailLines") else None,
        since=since,
        limit_bytes=_count(query, "limitBytes") if query.get("limitBytes") else None,
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1")


def _count(query: Mapping[str, str], name: str) -> int:
    text = query[name]
    if not text.isdigit():
        raise ValueError(f"{name} must be a non-negative number, not {text!r}")
    return int(text)


def select(lines: Iterable[bytes], request: LogRequest) -> Iterator[bytes]:
    """Return the lines of a finished read that the request wants, without their timestamps.

    First by time, then the last ones; bytes are the caller's to limit (:func:`limit`).
    """
    chosen = [line for line in lines if is_since(line, request.since)]
    if request.tail_lines is not None:
        chosen = chosen[len(chosen) - min(len(chosen), request.tail_lines) :]
    return (present(line, timestamps=request.timestamps) for line in chosen)


def is_since(line: bytes, since: datetime | None) -> bool:
    """Tell whether a stored line was written at or after a time (None: always)."""
    if since is None:
        return True
    stamp = line.split(b" ", 1)[0].decode("ascii", "replace")
    try:
        written = datetime.fromisoformat(stamp)
    except ValueError:
        return True
    return written.replace(tzinfo=written.tzinfo or UTC) >= since


def present(line: bytes, *, timestamps: bool) -> bytes:
    """Return a stored line as the reader sees it."""
    return line if timestamps else line.partition(b" ")[2]


def limit(chunks: Iterable[bytes], limit_bytes: int | None) -> Iterator[bytes]:
    """Cut the output off after so many bytes."""
    left = limit_bytes
    for chunk in chunks:
        if left is None:
            yield chunk
            continue
        if left <= 0:
            return
        yield chunk[:left]
        left -= len(chunk)
