"""What every Kubernetes object has: metadata, conditions, and the kind it is served as.

Decoding is lenient where the API server is (`null` lists and maps are accepted), because one odd
object must never stop the others from being read.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """Where a kind is served: the pieces of its REST path."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """`group/version`, or just the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of every API object: camelCase on the wire, defaults left out."""


class OwnerReference(Struct):
    """An object that this one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct):
    """Metadata as far as decisions read it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


def slim(metadata: ObjectMeta) -> None:
    """Drop what only the owner of an object reads; for kinds held by the thousand and never written."""
    metadata.labels = metadata.annotations = None
    metadata.finalizers = metadata.owner_references = None


class Condition(Struct):
    """A status condition; `reason` may be empty for NodeClaims."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class KubeObject(Struct):
    """A top-level object: its kind is a class attribute, never read from the body."""

    KIND: ClassVar[Kind]

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def uid(self) -> str:
        """The object's UID."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """Labels, empty when absent; do not mutate."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations, empty when absent; do not mutate."""
        return self.metadata.annotations or {}

    @property
    def finalizers(self) -> list[str]:
        """Finalizers, empty when absent; do not mutate."""
        return self.metadata.finalizers or []

    @property
    def owners(self) -> list[OwnerReference]:
        """Owner references, empty when absent; do not mutate."""
        return self.metadata.owner_references or []

    @property
    def deleting(self) -> bool:
        """Whether deletion was asked for."""
        return self.metadata.deletion_timestamp is not None


def condition(conditions: list[Condition] | None, type_: str) -> Condition | None:
    """Return the condition of that type, or None."""
    return next((found for found in conditions or () if found.type == type_), None)


def is_true(conditions: list[Condition] | None, type_: str) -> bool:
    """Whether the condition of that type is True."""
    found = condition(conditions, type_)
    return found is not None and found.status == "True"
