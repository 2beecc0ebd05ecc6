"""Turns Kubernetes objects and instances into one line each, and tells which lines are news. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from nodewright_local.demo.emulator import Ec2Instance

CLAIM_CONDITIONS: Final = ("Launched", "Registered", "Initialized", "Ready")
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"


class News:
    """Remembers the last line about each subject."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def of(self, lines: Mapping[str, str], *, gone: str = "gone") -> list[str]:
        """Return a line for every subject that is new, different, or not there any more."""
        news = [
            f"{subject} {line}"
            for subject, line in lines.items()
            if self._last.get(subject) != line
        ]
        news += [f"{subject} {gone}" for subject in self._last if subject not in lines]
        self._last = dict(lines)
        return news


def condition(found: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a condition of an object; an empty mapping when it has none of that type."""
    for item in found.get("status", {}).get("conditions") or ():
        if item["type"] == kind:
            return dict(item)
    return {}


def is_true(found: Mapping[str, Any], kind: str) -> bool:
    """Say whether a condition is True."""
    return condition(found, kind).get("status") == "True"


def since(found: Mapping[str, Any], kind: str) -> datetime | None:
    """Return when a condition took its present status."""
    at = condition(found, kind).get("lastTransitionTime")
    return parse_time(at) if at else None


def created_at(found: Mapping[str, Any]) -> datetime:
    """Return an object's creation time (whole seconds)."""
    return parse_time(found["metadata"]["creationTimestamp"])


def parse_time(text: str) -> datetime:
    """Return a Kubernetes timestamp as an aware datetime."""
    return datetime.fromisoformat(text)


def pod_line(pod: Mapping[str, Any]) -> str:
    """Describe a pod: why it waits, where it is bound, whether it runs."""
    if "deletionTimestamp" in pod["metadata"]:
        return "is being deleted"
    node = pod["spec"].get("nodeName")
    if node is None:
        scheduled = condition(pod, "PodScheduled")
        if scheduled.get("status") == "False":
            return f"waits: {_first_sentence(scheduled.get('message', ''))}"
        return "is created"
    if is_true(pod, "Ready"):
        return f"runs on {node}"
    return f"is bound to {node}"


def claim_line(claim: Mapping[str, Any]) -> str:
    """Describe a NodeClaim by the conditions that are true."""
    labels = claim["metadata"].get("labels", {})
    what = " ".join(value for value in (labels.get(INSTANCE_TYPE), labels.get(ZONE)) if value)
    if "deletionTimestamp" in claim["metadata"]:
        drained = ", drained" if is_true(claim, "Drained") else ""
        return f"is being deleted{drained}"
    reached = [kind for kind in CLAIM_CONDITIONS if is_true(claim, kind)]
    state = " ".join(f"{kind} ✓" for kind in reached) or "created"
    if is_true(claim, "Consolidatable"):
        state += ", may be consolidated"
    return f"{state} ({what})" if what else state


def node_line(node: Mapping[str, Any]) -> str:
    """Describe a node: readiness, and whether it is being emptied."""
    state = "Ready" if is_true(node, "Ready") else "has joined, not Ready yet"
    taints = [taint["key"] for taint in node["spec"].get("taints") or ()]
    if "deletionTimestamp" in node["metadata"]:
        return "is being deleted"
    if "karpenter.sh/disrupted" in taints:
        return f"{state}, tainted as disrupted"
    return state


def readiness_line(found: Mapping[str, Any]) -> str:
    """Describe a NodePool or NodeClass: ready, or what it waits for."""
    if is_true(found, "Ready"):
        return "is ready"
    conditions = found.get("status", {}).get("conditions") or ()
    waiting = [item["type"] for item in conditions if item["status"] != "True"]
    return f"waits for {', '.join(waiting)}" if waiting else "is accepted"


def instance_line(instance: Ec2Instance) -> str:
    """Describe an instance."""
    return f"{instance.state}: {instance.instance_type}, {instance.zone}, {instance.capacity_type}"


def named(kind: str, lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return lines by subject: the kind and the object's name."""
    return {f"{kind} {name}": line for name, line in lines}


def _first_sentence(message: str) -> str:
    """Return what the scheduler says first; the rest repeats it for preemption and devices."""
    return message.split(". ", 1)[0].rstrip(".")
