"""Which pods a planned NodeClaim was meant for, so that a failed launch can be told to them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_REMEMBERED: Final = 4096


class Nominations:
    """Pod keys by NodeClaim name, bounded."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def nominate(self, claim_name: str, pod_keys: tuple[str, ...]) -> None:
        """Remember for which pods the claim was made."""
        self._pods[claim_name] = pod_keys
        while len(self._pods) > _REMEMBERED:
            self._pods.popitem(last=False)

    def pods_of(self, claim_name: str) -> tuple[str, ...]:
        """Return the keys of the pods that the claim was made for."""
        return self._pods.get(claim_name, ())

    def forget(self, claim_name: str) -> None:
        """Forget a claim that is gone."""
        self._pods.pop(claim_name, None)
