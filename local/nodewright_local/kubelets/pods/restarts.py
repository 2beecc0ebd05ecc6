"""When a container that ended starts again: the kubelet's crash back-off.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restarts .
"""

from dataclasses import dataclass

FIRST_BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 300.0
GOOD_RUN_SECONDS = 600.0
"""A container that ran this long starts with a clean record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often a container ended in a row without a good run between."""

    ends: int = 0

    def after_end(self, *, ran_for_seconds: float) -> "Backoff":
        """Return the back-off after one more end of the container."""
        return Backoff(ends=1 if ran_for_seconds >= GOOD_RUN_SECONDS else self.ends + 1)

    @property
    def delay_seconds(self) -> float:
        """How long to wait now: nothing after the first end, then 10, 20, 40 up to 300 s."""
        if self.ends <= 1:
            return 0.0
        doubled = FIRST_BACKOFF_SECONDS * float(2 ** min(self.ends - 2, 10))
        return min(LONGEST_BACKOFF_SECONDS, doubled)


def restarts(policy: str, exit_code: int) -> bool:
    """Tell whether a pod's restartPolicy starts a container again after that exit code."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)
