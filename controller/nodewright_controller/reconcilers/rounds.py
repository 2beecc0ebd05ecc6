"""What rounds of provisioning leave behind for the next ones, and for whoever asks in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodewright_controller.api.pod import Pod
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.fixes import FixMemory
from nodewright_controller.scheduling.guard import Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How long a pod has been told the same."""

    uid: str
    code: str
    since: datetime
    times: int = 1
    """Rounds in a row."""


@dataclass(slots=True)
class RoundMemory:
    """Lives as long as the process leads."""

    fixes: FixMemory = field(default_factory=FixMemory)
    barred: Mapping[str, tuple[Bar, ...]] = field(default_factory=dict)
    """What the loop guard barred in the last round, by pod key."""
    _standings: dict[str, Standing] = field(default_factory=dict)

    def remember(self, decision: Decision, pods: Mapping[str, Pod], now: datetime) -> None:
        """Take in a round; pods that it found a place for, and those not in it, are forgotten."""
        found = {}
        for refused in (*decision.unschedulable, *decision.deferred):
            pod = pods.get(refused.pod)
            if pod is None:
                continue
            known = self.of(pod, refused.code)
            found[refused.pod] = Standing(
                uid=pod.uid,
                code=refused.code,
                since=known.since if known is not None else now,
                times=known.times + 1 if known is not None else 1,
            )
        self._standings = found

    def of(self, pod: Pod, code: str) -> Standing | None:
        """Return how long the pod has stood so; None if the last round came to something else."""
        known = self._standings.get(pod.key)
        return known if known is not None and (known.uid, known.code) == (pod.uid, code) else None

    def bars_at(self, now: datetime) -> Mapping[str, tuple[Bar, ...]]:
        """Return what is still barred."""
        left = {
            pod: tuple(bar for bar in bars if bar.until > now) for pod, bars in self.barred.items()
        }
        return {pod: bars for pod, bars in left.items() if bars}
