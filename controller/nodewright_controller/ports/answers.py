"""Who answers a person's questions; asked by the web server, answered by whoever leads."""

from __future__ import annotations

from typing import Protocol

from nodewright_controller.scheduling.explanations import PodExplanation, TypeExplanation


class UnknownSubject(Exception):
    """There is no such pod or NodeClaim; the message says so."""


class NoAnswer(Exception):
    """It cannot be answered now; the message says why."""


class Answers(Protocol):
    """Explains, from what is known at this moment."""

    async def pod(self, key: str) -> PodExplanation:
        """Return how it stands with a pod, `namespace/name`. Raises UnknownSubject, NoAnswer."""

    async def node_claim(self, name: str) -> TypeExplanation:
        """Return why a NodeClaim is of its type. Raises UnknownSubject, NoAnswer."""
