"""What became of each instance: ``kubelets.json``, for people and for a restart of this process."""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from nodewright_local.state import write_whole

log = logging.getLogger(__name__)


class JoinState(Enum):
    """Where an instance stands on its way to a Node and out again."""

    STARTING = "starting"
    """Seen running; the first attempt to join is under way."""
    RETRYING = "retrying"
    """The last attempt failed for a reason that may pass, as a kubelet sees it."""
    REFUSED = "refused"
    """It will never join: its user data is wrong."""
    JOINED = "joined"
    STOPPED = "stopped"
    """Its kubelet died with the machine; the Node still exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One instance's line in ``kubelets.json``. Times are ISO 8601 in UTC."""

    instance_id: str
    state: JoinState
    node_name: str = ""
    provider_id: str = ""
    cluster_name: str = ""
    reason: str = ""
    """A value of JoinProblem, empty if all is well."""
    detail: str = ""
    attempts: int = 0
    joined_at: str = ""
    notes: tuple[str, ...] = ()

    @property
    def has_node(self) -> bool:
        """Whether a Node was made for the instance."""
        return bool(self.joined_at)

    @property
    def runs_pods(self) -> bool:
        """Whether the machine is a node and alive."""
        return self.has_node and self.state is not JoinState.STOPPED


class Records:
    """All records, written to the file whenever one changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, Record] = _load(path)

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def get(self, instance_id: str) -> Record | None:
        """Return the instance's record, None if it has none."""
        return self._records.get(instance_id)

    def put(self, record: Record) -> None:
        """Keep a record; a change of reason is logged, an equal record does nothing."""
        before = self._records.get(record.instance_id)
        if before == record:
            return
        self._records[record.instance_id] = record
        self._save()
        told = before is not None and (before.state, before.reason, before.detail) == (
            record.state,
            record.reason,
            record.detail,
        )
        if not told:
            _tell(record)

    def forget(self, instance_id: str) -> None:
        """Drop the record of an instance that no longer exists."""
        if self._records.pop(instance_id, None) is not None:
            self._save()

    def node(self, node_name: str) -> Record | None:
        """Return the record of a living node, None if no machine of ours runs under that name."""
        for record in self._records.values():
            if record.node_name == node_name and record.runs_pods:
                return record
        return None

    def _save(self) -> None:
        lines = {key: _plain(record) for key, record in sorted(self._records.items())}
        write_whole(self._path, json.dumps(lines, indent=2))


def _tell(record: Record) -> None:
    if record.reason:
        log.warning(
            "instance %s is no node (%s): %s: %s",
            record.instance_id,
            record.state.value,
            record.reason,
            record.detail,
        )
    else:
        log.info("instance %s %s as %s", record.instance_id, record.state.value, record.node_name)


def _plain(record: Record) -> dict[str, Any]:
    values = asdict(record)
    values["state"] = record.state.value
    return {key: value for key, value in values.items() if key != "instance_id"}


def _load(path: Path) -> dict[str, Record]:
    known = {field.name for field in fields(Record)}
    try:
        lines = json.loads(path.read_text())
        return {
            instance_id: Record(
                instance_id=instance_id,
                **{
                    **{key: value for key, value in line.items() if key in known},
                    "state": JoinState(line["state"]),
                    "notes": tuple(line.get("notes", ())),
                },
            )
            for instance_id, line in lines.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s is not readable, starting without it: %s", path, error)
        return {}
