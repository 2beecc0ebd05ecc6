"""Where a pod's volumes let it run, and how many volumes it attaches.

Looks the pod's claims up among claims, volumes and classes; a claim that cannot be used is a
`VolumeProblem` of that pod alone. What a node can attach is compared in `scheduling`.
Upstream: pkg/scheduling/volumeusage.go and provisioning/scheduling/volumetopology.go.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from nodewright_controller.api.labels import HOSTNAME
from nodewright_controller.api.pod import NodeSelectorTerm, PersistentVolumeClaimSpec, Pod
from nodewright_controller.api.policy import VolumeAttachment
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements

EBS_DRIVER: Final = "ebs.csi.aws.com"
_TRANSLATED: Final = {"kubernetes.io/aws-ebs": EBS_DRIVER}
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ANYWHERE: Final[tuple[Requirements, ...]] = (Requirements(),)


class VolumeProblemKind(enum.Enum):
    """What is wrong with a claim."""

    CLAIM_NOT_FOUND = "pvc-not-found"
    CLAIM_DELETING = "pvc-deleting"
    CLAIM_LOST = "pvc-lost"
    VOLUME_NOT_FOUND = "pv-not-found"
    NOT_BOUND_YET = "pvc-not-bound-yet"
    UNBOUND_IMMEDIATE = "pvc-unbound-immediate"
    NO_STORAGE_CLASS = "pvc-without-class"
    STORAGE_CLASS_NOT_FOUND = "storage-class-not-found"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeProblem:
    """Why a pod's volumes cannot be resolved."""

    kind: VolumeProblemKind
    claim: str
    """`namespace/name` of the claim."""
    detail: str = ""
    """The object that is missing or in the way, if it is not the claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolumes:
    """What a pod's volumes ask of a node."""

    alternatives: tuple[Requirements, ...] = _ANYWHERE
    """The node must meet one of these."""
    origin: str = ""
    """The claim that restricts the place, for a person to read."""
    attached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Driver to the identities of the volumes it has to attach."""


NO_VOLUMES: Final = PodVolumes()


@dataclass(frozen=True, kw_only=True)
class VolumeCatalog:
    """All storage objects by key; claims by `namespace/name`."""

    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CSINode] = field(default_factory=dict)
    attachments: Mapping[str, tuple[VolumeAttachment, ...]] = field(default_factory=dict)
    """Node to what is attached to it, or still being attached or detached."""

    def resolve(self, pod: Pod) -> PodVolumes | VolumeProblem:
        """Return what the pod's volumes ask for, or the first problem among them."""
        if not pod.spec.volumes:
            return NO_VOLUMES
        combined, origin = _ANYWHERE, ""
        attached: dict[str, set[str]] = {}
        for key, spec in _claims_of(pod):
            found = self._resolve_claim(key, spec)
            if isinstance(found, VolumeProblem):
                return found
            alternatives, driver, identity = found
            if driver:
                attached.setdefault(driver, set()).add(identity)
            if alternatives != _ANYWHERE:
                origin = origin or key
                combined = _cross(combined, alternatives)
        frozen = {driver: frozenset(ids) for driver, ids in attached.items()}
        return PodVolumes(alternatives=combined, origin=origin, attached=frozen)

    def attached(self, pod: Pod) -> Mapping[str, frozenset[str]]:
        """Return the volumes a running pod has attached; what cannot be looked up counts as none.

        A claim whose volume is unknown still counts under its class's driver.
        """
        found: dict[str, set[str]] = {}
        for key, spec in _claims_of(pod):
            driver, identity = self._driver(key, spec)
            if driver:
                found.setdefault(driver, set()).add(identity)
        return {driver: frozenset(ids) for driver, ids in found.items()}

    def attached_to(self, node_name: str) -> Mapping[str, frozenset[str]]:
        """Return driver to the volumes that take a place on the node, whether a pod uses them or not.

        A volume of a pod that is gone keeps its place until it is detached, which is when its
        VolumeAttachment goes; kube-scheduler counts so since Kubernetes 1.32 (kubernetes#126502).
        The identities are those of `attached`, so a volume counts once.
        """
        found: dict[str, set[str]] = {}
        for attachment in self.attachments.get(node_name, ()):
            name = attachment.spec.source.persistent_volume_name
            if not name or not attachment.spec.attacher:
                continue  # a volume written into a pod, which no driver's count knows
            volume = self.volumes.get(name)
            driver, identity = _volume_identity(volume) if volume is not None else ("", "")
            if not driver:
                driver, identity = attachment.spec.attacher, f"volume {name}"
            found.setdefault(driver, set()).add(identity)
        return {driver: frozenset(ids) for driver, ids in found.items()}

    def attach_limits(self, node_name: str) -> Mapping[str, int | None] | None:
        """Return driver to how many volumes it attaches on the node (None: no bound).

        None when the node has no CSINode yet; a driver that is missing has not registered.
        """
        found = self.csi_nodes.get(node_name)
        if found is None:
            return None
        return {
            driver.name: driver.allocatable.count if driver.allocatable else None
            for driver in found.spec.drivers or ()
        }

    def _resolve_claim(
        self, key: str, spec: PersistentVolumeClaimSpec | None
    ) -> tuple[tuple[Requirements, ...], str, str] | VolumeProblem:
        claim = self.claims.get(key)
        if claim is None and spec is None:
            return VolumeProblem(kind=VolumeProblemKind.CLAIM_NOT_FOUND, claim=key)
        if claim is not None:
            if claim.deleting:
                return VolumeProblem(kind=VolumeProblemKind.CLAIM_DELETING, claim=key)
            if claim.status.phase == "Lost":
                return VolumeProblem(kind=VolumeProblemKind.CLAIM_LOST, claim=key)
            spec = claim.spec
            if spec.volume_name:
                return self._resolve_bound(key, claim)
        assert spec is not None
        return self._resolve_unbound(key, spec)

    def _resolve_bound(
        self, key: str, claim: PersistentVolumeClaim
    ) -> tuple[tuple[Requirements, ...], str, str] | VolumeProblem:
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is None or volume.deleting:
            return VolumeProblem(
                kind=VolumeProblemKind.VOLUME_NOT_FOUND, claim=key, detail=claim.spec.volume_name
            )
        if claim.status.phase != "Bound" and _BIND_COMPLETED not in claim.annotations:
            return VolumeProblem(
                kind=VolumeProblemKind.NOT_BOUND_YET, claim=key, detail=claim.spec.volume_name
            )
        driver, identity = _volume_identity(volume)
        return _volume_alternatives(volume), driver, identity

    def _resolve_unbound(
        self, key: str, spec: PersistentVolumeClaimSpec
    ) -> tuple[tuple[Requirements, ...], str, str] | VolumeProblem:
        if not spec.storage_class_name:
            return VolumeProblem(kind=VolumeProblemKind.NO_STORAGE_CLASS, claim=key)
        storage_class = self.classes.get(spec.storage_class_name)
        if storage_class is None:
            return VolumeProblem(
                kind=VolumeProblemKind.STORAGE_CLASS_NOT_FOUND,
                claim=key,
                detail=spec.storage_class_name,
            )
        if storage_class.volume_binding_mode != "WaitForFirstConsumer":
            return VolumeProblem(
                kind=VolumeProblemKind.UNBOUND_IMMEDIATE, claim=key, detail=spec.storage_class_name
            )
        terms = storage_class.allowed_topologies
        alternatives = tuple(_topology(term) for term in terms) if terms else _ANYWHERE
        return alternatives, _class_driver(storage_class), f"claim {key}"

    def _driver(self, key: str, spec: PersistentVolumeClaimSpec | None) -> tuple[str, str]:
        claim = self.claims.get(key)
        spec = claim.spec if claim is not None else spec
        if spec is None:
            return "", ""
        volume = self.volumes.get(spec.volume_name) if spec.volume_name else None
        if volume is not None:
            return _volume_identity(volume)
        storage_class = self.classes.get(spec.storage_class_name or "")
        return (_class_driver(storage_class), f"claim {key}") if storage_class else ("", "")


def by_node(
    attachments: Iterable[VolumeAttachment],
) -> Mapping[str, tuple[VolumeAttachment, ...]]:
    """Return the attachments of each node, for `VolumeCatalog.attachments`."""
    found: dict[str, list[VolumeAttachment]] = {}
    for attachment in attachments:
        found.setdefault(attachment.spec.node_name, []).append(attachment)
    return {node: tuple(listed) for node, listed in found.items()}


def _claims_of(pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaimSpec | None]]:
    """Yield the key of every claim, with its template where the volume is ephemeral."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield f"{namespace}/{volume.persistent_volume_claim.claim_name}", None
        elif volume.ephemeral is not None:
            template = volume.ephemeral.volume_claim_template
            yield f"{namespace}/{pod.name}-{volume.name}", template.spec if template else None


def _class_driver(storage_class: StorageClass) -> str:
    provisioner = storage_class.provisioner
    if provisioner == _NO_PROVISIONER:
        return ""
    return _TRANSLATED.get(provisioner, provisioner)


def _volume_identity(volume: PersistentVolume) -> tuple[str, str]:
    """Return driver and identity; both empty for a volume that no CSI driver attaches."""
    if volume.spec.csi is not None:
        handle = volume.spec.csi.volume_handle or volume.name
        return volume.spec.csi.driver, handle
    if volume.spec.aws_elastic_block_store is not None:
        return EBS_DRIVER, volume.spec.aws_elastic_block_store.volume_id or volume.name
    return "", ""


def _volume_alternatives(volume: PersistentVolume) -> tuple[Requirements, ...]:
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else None
    if not terms:
        return _ANYWHERE
    host_bound = volume.spec.local is not None or volume.spec.host_path is not None
    return tuple(_term(term, drop_hostname=host_bound) for term in terms)


def _term(term: NodeSelectorTerm, *, drop_hostname: bool) -> Requirements:
    # A local volume's host is gone with its node; asking for it would strand the pod for ever.
    return Requirements(
        Requirement.of(entry.key, entry.operator, entry.values or ())
        for entry in term.match_expressions or ()
        if not (drop_hostname and entry.key == HOSTNAME)
    )


def _topology(term: TopologySelectorTerm) -> Requirements:
    return Requirements(
        Requirement.of(entry.key, "In", entry.values or ())
        for entry in term.match_label_expressions or ()
    )


def _cross(
    some: tuple[Requirements, ...], others: tuple[Requirements, ...]
) -> tuple[Requirements, ...]:
    """Return every pair that can hold together; all pairs if none can, to be refused by name."""
    pairs = [(one, other) for one in some for other in others]
    meeting = [pair for pair in pairs if not pair[0].intersect_conflicts(pair[1])]
    merged = [one.merged(other) for one, other in (meeting or pairs)]
    return tuple(dict.fromkeys(merged))
