"""Tells of fields that cannot be read: once each, in the log, as an event, and as a number.

What decisions do without them is decided where they are used; `cluster.faults` finds them.
"""

from __future__ import annotations

from collections import Counter

import structlog

from nodewright_controller.api.meta import KubeObject
from nodewright_controller.cluster.faults import Fault, faults_of
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.reconcilers.world import World
from nodewright_controller.runtime import metrics

log = structlog.get_logger()

REASON = "UnreadableField"


class FaultWatch:
    """Looks at every object that decisions read, whenever it changes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[str, str], tuple[Fault, ...]] = {}
        self._counts: Counter[str] = Counter()

    def follow(self, world: World) -> None:
        """Subscribe; objects that are known already are looked at at once."""
        world.nodes.on_change(self.changed)
        world.node_claims.on_change(self.changed)
        world.pods.on_change(self.changed)
        world.daemon_sets.on_change(self.changed)
        world.limit_ranges.on_change(self.changed)
        world.volumes.on_change(self.changed)
        world.csi_nodes.on_change(self.changed)

    def changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Tell what is new about an object, and forget one that is gone."""
        about = new if new is not None else old
        if about is None:
            return
        kind, identity = about.KIND.kind, (about.KIND.kind, about.key)
        before = self._known.pop(identity, ())
        found = faults_of(new) if new is not None else ()
        if found:
            self._known[identity] = found
        for fault in found:
            if fault not in before:
                self._tell(about, fault)
        if bool(found) != bool(before):
            self._counts[kind] += 1 if found else -1
            metrics.UNREADABLE_OBJECTS.labels(kind).set(self._counts[kind])

    def _tell(self, about: KubeObject, fault: Fault) -> None:
        log.warning(
            "field cannot be read",
            kind=fault.kind,
            object=fault.key,
            field=fault.field,
            value=fault.value,
            until_then=fault.consequence,
        )
        self._recorder.record(Event(about=about, reason=REASON, message=fault.text, warning=True))
