"""What the events of a running cluster say about a pod, for when the controller cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from nodewright_controller.api.coordination import KubeEvent
from nodewright_controller.api.meta import condition
from nodewright_controller.api.pod import Pod
from nodewright_controller.kube import requests
from nodewright_controller.kube.client import KubeClient, decode
from nodewright_controller.kube.requests import Request

OURS = ("karpenter", "nodewright")
_REASONS = ("FailedScheduling", "Nominated")


class _Events(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The answer."""

    line: str
    since: str = ""
    """When it was said first, as the API server writes instants; empty when nothing was said."""
    last: str = ""
    times: int = 0


async def last_event(kube: KubeClient, namespace: str, name: str) -> Said:
    """Return the controller's last word on a pod.

    Raises:
        KubeError: the pod does not exist, or the API server does not answer.

    """
    pod = await kube.get(Pod, name, namespace)
    if pod.spec.node_name:
        return Said(line=f"pod/{pod.key} placed: it is on node/{pod.spec.node_name}")
    events = await _events_of(kube, pod)
    if not events:
        return Said(line=f"pod/{pod.key} held: {_standing(pod)}")
    newest = max(events, key=lambda found: (found.last_timestamp or "", found.name))
    return Said(
        line=newest.message.removeprefix("Failed to schedule pod, "),
        since=newest.first_timestamp or "",
        last=newest.last_timestamp or "",
        times=newest.count,
    )


async def _events_of(kube: KubeClient, pod: Pod) -> list[KubeEvent]:
    """Return what the controller said about the pod; other components' events are left out."""
    path = requests.collection(KubeEvent.KIND, pod.metadata.namespace)
    selector = f"involvedObject.name={pod.name},involvedObject.uid={pod.uid}"
    request = Request(method="GET", path=path, params={"fieldSelector": selector})
    page = msgspec.json.decode(await kube.send(request), type=_Events)
    found = (decode(KubeEvent, raw) for raw in page.items or ())
    return [
        event
        for event in found
        if event is not None
        and event.reason in _REASONS
        and (event.source.component in OURS or event.reporting_component in OURS)
    ]


def _standing(pod: Pod) -> str:
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is None or scheduled.reason != "Unschedulable":
        detail = scheduled.message or scheduled.reason if scheduled is not None else ""
        return detail or "kube-scheduler has not looked at it yet"
    return "the controller has said nothing about it yet"
