"""Small changes to a pod or a NodePool that might give a pod its place.

An edit is a value that can be printed and applied to a copy of the objects. Whether it helps is
decided by solving the edited problem (`scheduling.fixes`); nothing here changes what runs. No edit
weakens a disruption budget or takes an annotation away that protects a pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as changed
from typing import Final, Protocol

from nodewright_controller.api.labels import NORMALIZED, WELL_KNOWN
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.kernel.resources import MEMORY, human_amount
from nodewright_controller.scheduling.problem import PoolOffer

NODES: Final = "nodes"
"""The limit that counts nodes rather than a resource."""


class Edit(Protocol):
    """A change that a person could make."""

    @property
    def text(self) -> str:
        """The change as an imperative without its subject's owner, for the end of a line."""

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with the change; the same object where it changes nothing."""

    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool with the change; the same object where it changes nothing."""

    @property
    def subject(self) -> tuple[str, ...]:
        """What is changed; edits of one subject differ in how far they go."""


class PodEdit:
    """An edit that leaves every pool alone."""

    __slots__ = ()

    @property
    def subject(self) -> tuple[str, ...]:
        """What is changed: by default, no other edit is about the same."""
        return (repr(self),)

    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool as it is."""
        return offer


class PoolEdit:
    """An edit that leaves the pod alone."""

    __slots__ = ()
    node_pool: str

    @property
    def subject(self) -> tuple[str, ...]:
        """What is changed: by default, no other edit is about the same."""
        return (repr(self),)

    def pod(self, pod: Pod) -> Pod:
        """Return the pod as it is."""
        return pod

    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool with the change, if it is the one that is meant."""
        if offer.node_pool.name != self.node_pool:
            return offer
        return changed(offer, node_pool=self.edited(offer.node_pool))

    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with the change."""
        raise NotImplementedError


def short(key: str) -> str:
    """Return a label as people say it: `zone` for the well-known one, others in full."""
    return key.rpartition("/")[2] if key in WELL_KNOWN else key


def stable(key: str) -> str:
    """Return the label that a deprecated key means today; others as they are."""
    return NORMALIZED.get(key, key)


def named(resource: str, value: int) -> str:
    """Return `2 cpu`, `4 GiB`, `1 nvidia.com/gpu`."""
    if resource == NODES and value == 1:
        return "1 node"
    name = "" if resource == MEMORY else f" {resource}"
    return f"{human_amount(resource, value)}{name}"


def joined(edits: Iterable[Edit]) -> str:
    """Return the edits of one fix as one text."""
    return " and ".join(edit.text for edit in edits)
