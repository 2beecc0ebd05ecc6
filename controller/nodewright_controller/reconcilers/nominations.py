"""What a planned NodeClaim is for: which pods, and why it will be what.

Told when a launch fails or succeeds, and to whoever asks; it lasts as long as the claim, and no longer
than this process leads.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from nodewright_controller.scheduling.explanations import TypeExplanation
from nodewright_controller.scheduling.type_plan import Plan

_REMEMBERED: Final = 4096


@dataclass(slots=True)
class _Purpose:
    pods: tuple[str, ...]
    plan: Plan | None
    choice: TypeExplanation | None = None


class Nominations:
    """Purposes by NodeClaim name, bounded."""

    def __init__(self) -> None:
        self._purposes: OrderedDict[str, _Purpose] = OrderedDict()
        self._claims: dict[str, str] = {}

    def nominate(
        self, claim_name: str, pod_keys: tuple[str, ...], plan: Plan | None = None
    ) -> None:
        """Remember for which pods the claim was made, and what is known of its type."""
        self._purposes[claim_name] = _Purpose(pod_keys, plan)
        self._claims.update(dict.fromkeys(pod_keys, claim_name))
        while len(self._purposes) > _REMEMBERED:
            self.forget(next(iter(self._purposes)))

    def pods_of(self, claim_name: str) -> tuple[str, ...]:
        """Return the keys of the pods that the claim was made for."""
        found = self._purposes.get(claim_name)
        return found.pods if found is not None else ()

    def claim_of(self, pod_key: str) -> str:
        """Return the claim that was last made for a pod; empty when there is none."""
        return self._claims.get(pod_key, "")

    def plan_of(self, claim_name: str) -> Plan | None:
        """Return what was known of the claim's type when it was planned."""
        found = self._purposes.get(claim_name)
        return found.plan if found is not None else None

    def chose(self, claim_name: str, choice: TypeExplanation) -> None:
        """Remember why a launched claim is of its type."""
        found = self._purposes.setdefault(claim_name, _Purpose((), None))
        found.choice = choice

    def choice_of(self, claim_name: str) -> TypeExplanation | None:
        """Return why a claim that this process has launched is of its type."""
        found = self._purposes.get(claim_name)
        return found.choice if found is not None else None

    def forget(self, claim_name: str) -> None:
        """Forget a claim that is gone."""
        gone = self._purposes.pop(claim_name, None)
        for pod in gone.pods if gone is not None else ():
            if self._claims.get(pod) == claim_name:
                del self._claims[pod]
