"""Documents to a `World`: which kind each one is, what the API server would add, what is broken.

v1beta1 objects come in through our own conversion. Every object that cannot be read becomes a
warning that names it, and the rest of the world goes on without it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from nodewright_controller.api import codec
from nodewright_controller.api.codec import Broken
from nodewright_controller.api.conversion import ConversionError, convert
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import PodDisruptionBudget, VolumeAttachment
from nodewright_controller.api.service import Service
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from nodewright_controller.api.workloads import (
    DaemonSet,
    LimitRange,
    Namespace,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from nodewright_controller.cluster.faults import faults_of
from nodewright_controller.scenario import workloads
from nodewright_controller.scenario.admission import Admission, Json, limit_range_defaults
from nodewright_controller.scenario.catalog import read_catalog
from nodewright_controller.scenario.files import Documents
from nodewright_controller.scenario.pod_fields import unknown_pod_fields
from nodewright_controller.scenario.repair import repaired
from nodewright_controller.scenario.schema_check import check_schema
from nodewright_controller.scenario.spec import CATALOG, OURS, SCENARIO, no_scenario, read_spec
from nodewright_controller.scenario.values import World

K = TypeVar("K", bound=KubeObject)

_MODELS: Final[tuple[type[KubeObject], ...]] = (
    NodePool,
    NodeClaim,
    NodeOverlay,
    EC2NodeClass,
    Node,
    Pod,
    DaemonSet,
    PodDisruptionBudget,
    VolumeAttachment,
    LimitRange,
    Namespace,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    Service,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
)
_BY_KIND: Final = {(model.KIND.group, model.KIND.kind): model for model in _MODELS}
_CONVERTED: Final = (NodePool, NodeClaim, EC2NodeClass)
_READ_ELSEWHERE: Final = frozenset({"RuntimeClass", "PriorityClass"})
"""Kinds that only admission looks at."""
_WITH_PODS: Final = frozenset({"Pod", "DaemonSet", *workloads.KINDS})
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_UNSCHEDULABLE: Final = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
_GATED: Final = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
_SCHEDULED: Final = {"type": "PodScheduled", "status": "True"}


def load_world(documents: Documents, now: datetime | None = None) -> World:
    """Return the world that the documents describe.

    Args:
        documents: what `files.read_folder` found.
        now: the instant at which a world without a Scenario is looked at; else the Scenario's.

    """
    return _Loading(documents, now).world()


class _Loading:
    def __init__(self, documents: Documents, now: datetime | None) -> None:
        self._documents = documents
        self._now = now
        self._warnings: list[str] = list(documents.warnings)
        self._found: dict[type[KubeObject], dict[str, KubeObject]] = {m: {} for m in _MODELS}
        self._addresses: dict[str, int] = {}
        self._refused: dict[str, tuple[str, ...]] = {}
        self._admission = Admission(documents.bodies)

    def world(self) -> World:
        bodies = self._documents.bodies
        ours = [body for body in bodies if _group(body) == OURS]
        scenarios = [body for body in ours if body["kind"] == SCENARIO]
        spec = no_scenario(self._documents.name, self._now or datetime.now(UTC))
        if scenarios:
            spec = read_spec(scenarios[0], self._documents.name, self._warnings)
        catalogs = [body for body in ours if body["kind"] == CATALOG]
        for body in bodies:
            if _group(body) != OURS:
                self._look_at_fields(body)
            if _group(body) != OURS and body["kind"] not in workloads.KINDS:
                self._take(body)
        # What stands in the files itself comes first; a workload only adds what is missing.
        for body in bodies:
            if _group(body) != OURS and body["kind"] in workloads.KINDS:
                self._expand(body)
        self._complete_namespaces()
        world = World(
            scenario=spec,
            catalog=read_catalog(catalogs, self._warnings),
            node_pools=self._of(NodePool),
            node_classes=self._of(EC2NodeClass),
            node_claims=self._of(NodeClaim),
            node_overlays=self._of(NodeOverlay),
            nodes=self._of(Node),
            pods=self._of(Pod),
            daemon_sets=self._of(DaemonSet),
            disruption_budgets=self._of(PodDisruptionBudget),
            limit_ranges=self._of(LimitRange),
            namespaces=self._of(Namespace),
            storage=(
                *self._of(PersistentVolumeClaim),
                *self._of(PersistentVolume),
                *self._of(StorageClass),
                *self._of(CSINode),
            ),
            volume_attachments=self._of(VolumeAttachment),
            selecting=(
                *self._of(Service),
                *self._of(ReplicaSet),
                *self._of(StatefulSet),
                *self._of(ReplicationController),
            ),
            free_addresses=self._addresses,
            refused=self._refused,
        )
        return repaired(world, tuple(self._warnings))

    def _of(self, kind: type[K]) -> tuple[K, ...]:
        return tuple(found for found in self._found[kind].values() if isinstance(found, kind))

    # One document.

    def _look_at_fields(self, body: Mapping[str, Any]) -> None:
        """Note what nobody reads, and what the API server would refuse."""
        found = check_schema(body)
        if found.problems:
            self._refuse(body, found.problems)
        unknown = [*found.unknown, *(unknown_pod_fields(body) if self._has_pods(body) else ())]
        self._warnings.extend(
            f"{_who(body)}: {field}: is not known, so it changes nothing" for field in unknown
        )

    @staticmethod
    def _has_pods(body: Mapping[str, Any]) -> bool:
        return body["kind"] in _WITH_PODS

    def _refuse(self, body: Mapping[str, Any], problems: tuple[str, ...]) -> None:
        metadata = body.get("metadata")
        name = str(metadata.get("name")) if isinstance(metadata, Mapping) else "?"
        key = f"{body['kind']}/{name}"
        self._refused[key] = (*self._refused.get(key, ()), *problems)
        self._warnings.extend(f"{body['kind']} {name}: {text}" for text in problems)

    def _take(self, body: Mapping[str, Any]) -> None:
        model = _BY_KIND.get((_group(body), str(body["kind"])))
        if model is None:
            if body["kind"] not in _READ_ELSEWHERE:
                self._warnings.append(f"{_who(body)}: this kind is not read here")
            return
        try:
            prepared = self._prepare(model, body)
        except ConversionError as error:
            self._refuse(body, (str(error),))
            return
        try:
            msgspec.msgpack.encode(prepared)
        except OverflowError:
            self._refuse(body, ("a number is larger than 64 bits hold",))
            return
        decoded = codec.decode(model, msgspec.json.encode(prepared))
        if isinstance(decoded, Broken):
            self._refuse(body, (f"{decoded.field}: {decoded.problem}",))
        elif not decoded.name:
            self._warnings.append(f"{model.KIND.kind} without a name: metadata.name: must be given")
        elif decoded.key in self._found[model]:
            self._warnings.append(
                f"{model.KIND.kind} {decoded.key} is there twice; the first counts"
            )
        else:
            self._found[model][decoded.key] = decoded
            self._warnings.extend(fault.text for fault in faults_of(decoded))

    def _prepare(self, model: type[KubeObject], body: Mapping[str, Any]) -> Json:
        prepared: Json = copy.deepcopy(dict(body))
        if model in _CONVERTED and prepared["apiVersion"] != model.KIND.api_version:
            prepared = convert(prepared, model.KIND.api_version)
        metadata = prepared.get("metadata")
        if not isinstance(metadata, dict):
            return prepared  # decoding says what is wrong with it
        if model.KIND.namespaced:
            metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", f"{model.KIND.kind}/{_key(metadata)}")
        prepare = _PREPARE.get(model)
        if model is Pod:
            prepared = _with_status(self._admission.admit(prepared))
        elif model is PersistentVolumeClaim:
            prepared = self._admission.admit_claim(prepared)
        elif model is EC2NodeClass:
            self._addresses.update(_free_addresses(prepared))
        elif prepare is not None:
            prepared = prepare(prepared)
        return prepared

    # Workloads.

    def _expand(self, body: Mapping[str, Any]) -> None:
        try:
            pods = list(workloads.pods_of(body))
            claims = list(workloads.claims_of(body))
            owners = list(workloads.owners_of(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            detail = str(error) if isinstance(error, ValueError) else f"is malformed ({error!r})"
            self._warnings.append(f"{_who(body)}: {detail}")
            return
        for made in (*claims, *pods, *owners):
            model = _BY_KIND.get((_group(made), made["kind"]))
            if model is None:
                continue  # an owner of a group that is none of Kubernetes' own
            if _key(made["metadata"]) not in self._found[model]:
                self._take(made)

    def _complete_namespaces(self) -> None:
        """Give every namespace in use an object, and the label that the API server puts on it."""
        spaces = self._found[Namespace]
        used = {o.metadata.namespace for objects in self._found.values() for o in objects.values()}
        for name in sorted(used - {""} - set(spaces)):
            self._take({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, space in spaces.items():
            labels = {_NAME_LABEL: name, **space.labels}
            metadata = msgspec.structs.replace(space.metadata, labels=labels)
            spaces[name] = msgspec.structs.replace(space, metadata=metadata)


_PREPARE: Final[Mapping[type[KubeObject], Callable[[Json], Json]]] = {
    LimitRange: limit_range_defaults,
}


def _with_status(pod: Json) -> Json:
    """Return a pod as kube-scheduler leaves it: bound pods run, others were found no place."""
    spec = pod.get("spec")
    given = pod.get("status")
    if given is not None and not isinstance(given, dict):
        return pod  # decoding says what is wrong with it
    status = dict(given or {})
    bound = isinstance(spec, dict) and bool(spec.get("nodeName"))
    gated = isinstance(spec, dict) and bool(spec.get("schedulingGates"))
    status.setdefault("phase", "Running" if bound else "Pending")
    conditions = status.get("conditions") or []
    if not isinstance(conditions, list):
        return pod
    conditions = list(conditions)
    if not any(isinstance(c, dict) and c.get("type") == "PodScheduled" for c in conditions):
        conditions.append(_SCHEDULED if bound else _GATED if gated else _UNSCHEDULABLE)
    return {**pod, "status": {**status, "conditions": conditions}}


def _free_addresses(node_class: Json) -> dict[str, int]:
    """Return subnet id to free addresses; EC2 knows them, the API object does not."""
    status = node_class.get("status")
    subnets = status.get("subnets") if isinstance(status, dict) else None
    return {
        str(found.get("id")): found["availableIpAddressCount"]
        for found in (subnets if isinstance(subnets, list) else ())
        if isinstance(found, dict) and isinstance(found.get("availableIpAddressCount"), int)
    }


def _group(body: Mapping[str, Any]) -> str:
    version = str(body.get("apiVersion", ""))
    return version.partition("/")[0] if "/" in version else ""


def _key(metadata: Mapping[str, Any]) -> str:
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata.get('name')}" if namespace else str(metadata.get("name"))


def _who(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    name = _key(metadata) if isinstance(metadata, Mapping) and metadata.get("name") else "?"
    return f"{body.get('apiVersion', '?')} {body.get('kind', '?')} {name}"
