"""Small objects with valid defaults, for tests that state only what matters to them.

Quantities parse (`cpu="1500m"`), requirements have a short form (`requires="zone in a,b"`), and
`world()` refuses a cluster that could not exist. Names are deterministic: what is given, or a count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
from nodewright_controller.api import labels as names
from nodewright_controller.api.meta import Condition, ObjectMeta, OwnerReference
from nodewright_controller.api.node import Node, NodeSpec, NodeStatus, Taint
from nodewright_controller.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from nodewright_controller.api.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassReference,
    NodePool,
    NodePoolSpec,
    NodePoolStatus,
    NodeSelectorRequirementWithMinValues,
    TemplateMeta,
)
from nodewright_controller.api.pod import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimSpec,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    Quantities,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from nodewright_controller.api.policy import (
    AttachmentSource,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from nodewright_controller.api.volumes import (
    CSINode,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from nodewright_controller.cluster.pods import is_owned_by_daemon_set
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.cluster.volumes import EBS_DRIVER, VolumeCatalog, by_node
from nodewright_controller.constraints.instance_type import InstanceType, Offering, Overhead
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.problem import (
    PoolOffer,
    Problem,
    SolverOptions,
    not_ready,
    ordered,
)

NOW = datetime(2030, 1, 2, 10, tzinfo=UTC)
SHORT_KEYS = {
    "zone": names.ZONE,
    "type": names.INSTANCE_TYPE,
    "arch": names.ARCH,
    "os": names.OS,
    "capacity": names.CAPACITY_TYPE,
    "pool": names.NODEPOOL,
    "host": names.HOSTNAME,
    "region": names.REGION,
}
_OPERATORS = {
    "in": "In",
    "not in": "NotIn",
    "exists": "Exists",
    "absent": "DoesNotExist",
    ">": "Gt",
    "<": "Lt",
    ">=": "Gte",
    "<=": "Lte",
}
_count = itertools.count(1)


def key(short: str) -> str:
    """Return the label that a short key stands for."""
    return SHORT_KEYS.get(short, short)


def parse_rule(text: str) -> tuple[str, str, list[str]]:
    """Read `zone in a,b`, `team exists`, `cpu > 4` as key, operator, values."""
    for word, operator in sorted(_OPERATORS.items(), key=lambda item: -len(item[0])):
        head, found, tail = text.partition(f" {word}")
        if found and (not tail or tail[0] == " "):
            values = [v.strip() for v in tail.split(",") if v.strip()]
            return key(head.strip()), operator, values
    raise ValueError(f"{text!r} is no rule (such as 'zone in a,b', 'team exists', 'cpu > 4')")


def rules(text: str) -> list[tuple[str, str, list[str]]]:
    """Read rules joined by `;`."""
    return [parse_rule(part.strip()) for part in text.split(";") if part.strip()]


def term(text: str) -> NodeSelectorTerm:
    """A node selector term."""
    return NodeSelectorTerm(
        match_expressions=[
            LabelSelectorRequirement(key=k, operator=operator, values=values or None)
            for k, operator, values in rules(text)
        ]
    )


def selector(match: Mapping[str, str] | None) -> LabelSelector | None:
    """A label selector of exact labels; None selects nothing."""
    return None if match is None else LabelSelector(match_labels=dict(match))


def taint(text: str) -> Taint:
    """Read `key=value:Effect` or `key:Effect`."""
    body, _, effect = text.rpartition(":")
    name, _, value = body.partition("=")
    return Taint(key=name, value=value, effect=effect)


def toleration(text: str) -> Toleration:
    """Read `key=value:Effect`, `key:Effect`, `key`, or `*` for everything."""
    if text == "*":
        return Toleration(operator="Exists")
    body, _, effect = text.rpartition(":") if ":" in text else (text, "", "")
    name, equals, value = body.partition("=")
    operator = "Equal" if equals else "Exists"
    return Toleration(key=name, operator=operator, value=value, effect=effect)


def spread(
    over: str = "zone",
    match: Mapping[str, str] | None = None,
    *,
    skew: int = 1,
    soft: bool = False,
    min_domains: int | None = None,
    affinity_policy: str | None = None,
    taints_policy: str | None = None,
    match_label_keys: list[str] | None = None,
) -> TopologySpreadConstraint:
    """A topology spread constraint."""
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key(over),
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=selector(match),
        min_domains=min_domains,
        node_affinity_policy=affinity_policy,
        node_taints_policy=taints_policy,
        match_label_keys=match_label_keys,
    )


def near(
    match: Mapping[str, str] | None,
    over: str = "zone",
    namespaces: list[str] | None = None,
    in_namespaces: Mapping[str, str] | None = None,
) -> PodAffinityTerm:
    """A pod affinity term, for `affinity=` and `anti=`; `in_namespaces` selects them by label."""
    return PodAffinityTerm(
        topology_key=key(over),
        label_selector=selector(match),
        namespaces=namespaces,
        namespace_selector=selector(in_namespaces),
    )


def pod(
    name: str = "",
    *,
    cpu: str | int | None = "100m",
    memory: str | None = None,
    requests: Quantities | None = None,
    limits: Quantities | None = None,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    requires: str | Sequence[str] = "",
    prefers: Sequence[tuple[int, str]] = (),
    select: Mapping[str, str] | None = None,
    tolerates: Iterable[str] = (),
    spreads: Iterable[TopologySpreadConstraint] = (),
    affinity: Iterable[PodAffinityTerm] = (),
    anti: Iterable[PodAffinityTerm] = (),
    prefers_near: Iterable[tuple[int, PodAffinityTerm]] = (),
    prefers_apart: Iterable[tuple[int, PodAffinityTerm]] = (),
    ports: Iterable[int | ContainerPort] = (),
    claims: Iterable[str] = (),
    node: str = "",
    owner: str = "ReplicaSet",
    annotations: Mapping[str, str] | None = None,
    created: datetime | None = None,
    init_containers: list[Container] | None = None,
) -> Pod:
    """A pod: pending and unschedulable, or running on `node`. Several `requires` are alternatives."""
    name = name or f"pod-{next(_count)}"
    asked: Quantities = dict(requests or {})
    if cpu is not None:
        asked["cpu"] = cpu
    if memory is not None:
        asked["memory"] = memory
    terms = [requires] if isinstance(requires, str) else list(requires)
    terms = [one for one in terms if one]
    ports_given = [
        p if isinstance(p, ContainerPort) else ContainerPort(container_port=p, host_port=p)
        for p in ports
    ]
    owner_kind, _, owner_name = owner.partition("/")
    owners = [
        OwnerReference(
            api_version="v1" if owner_kind == "Node" else "apps/v1",
            kind=owner_kind,
            name=owner_name or name.rpartition("-")[0] or name,
            controller=True,
        )
    ]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            labels=dict(labels) if labels else None,
            annotations=dict(annotations) if annotations else None,
            creation_timestamp=created or NOW,
            owner_references=owners if owner else None,
        ),
        spec=PodSpec(
            node_name=node,
            node_selector={key(k): v for k, v in select.items()} if select else None,
            affinity=_affinity(
                [term(one) for one in terms],
                [(weight, term(text)) for weight, text in prefers],
                list(affinity),
                list(anti),
                list(prefers_near),
                list(prefers_apart),
            ),
            tolerations=[toleration(text) for text in tolerates] or None,
            topology_spread_constraints=list(spreads) or None,
            containers=[
                Container(
                    name="main",
                    resources=ResourceRequirements(requests=asked or None, limits=limits),
                    ports=ports_given or None,
                )
            ],
            init_containers=init_containers,
            volumes=[
                Volume(
                    name=f"v{position}",
                    persistent_volume_claim=PersistentVolumeClaimSource(claim_name=claim),
                )
                for position, claim in enumerate(claims)
            ]
            or None,
        ),
        status=PodStatus(
            phase="Running" if node else "Pending",
            conditions=[
                Condition(type="PodScheduled", status="True")
                if node
                else Condition(type="PodScheduled", status="False", reason="Unschedulable")
            ],
        ),
    )


def _affinity(
    required: list[NodeSelectorTerm],
    preferred: list[tuple[int, NodeSelectorTerm]],
    near_to: list[PodAffinityTerm],
    apart: list[PodAffinityTerm],
    prefers_near: list[tuple[int, PodAffinityTerm]],
    prefers_apart: list[tuple[int, PodAffinityTerm]],
) -> Affinity | None:
    if not (required or preferred or near_to or apart or prefers_near or prefers_apart):
        return None

    def weighted(terms: list[tuple[int, PodAffinityTerm]]) -> list[WeightedPodAffinityTerm] | None:
        return [WeightedPodAffinityTerm(weight=w, pod_affinity_term=t) for w, t in terms] or None

    return Affinity(
        node_affinity=NodeAffinity(
            required=NodeSelector(node_selector_terms=required) if required else None,
            preferred=[PreferredSchedulingTerm(weight=w, preference=t) for w, t in preferred]
            or None,
        ),
        pod_affinity=PodAffinity(required=near_to or None, preferred=weighted(prefers_near)),
        pod_anti_affinity=PodAffinity(required=apart or None, preferred=weighted(prefers_apart)),
    )


def daemon(name: str, **fields: Any) -> Pod:
    """A DaemonSet's representative pod; fields as for `pod`."""
    return pod(name, owner=f"DaemonSet/{name}", **fields)


def offering(
    zone: str = "a",
    capacity_type: str = "on-demand",
    price: float = 0.1,
    *,
    available: bool = True,
    reservation: str = "",
    reserved: int = 0,
) -> Offering:
    """A way to buy an instance type."""
    fixed = {names.ZONE: zone, names.CAPACITY_TYPE: capacity_type}
    requirements = Requirements.of_labels(fixed)
    reservation_rule = (
        Requirement.of(names.CAPACITY_RESERVATION_ID, "In", (reservation,))
        if reservation
        else Requirement.of(names.CAPACITY_RESERVATION_ID, "DoesNotExist")
    )
    return Offering(requirements.merged([reservation_rule]), price, available, reserved)


def instance_type(
    name: str = "m.large",
    *,
    cpu: str | int = 2,
    memory: str = "8Gi",
    pods: int = 110,
    zones: Mapping[str, float] | None = None,
    spot: Mapping[str, float] | None = None,
    offerings: Iterable[Offering] | None = None,
    arch: str = "amd64",
    os: str = "linux",
    labels: Mapping[str, str] | None = None,
    overhead: Quantities | None = None,
    volume_limits: Mapping[str, int] | None = None,
    extra: Mapping[str, str | int] | None = None,
) -> InstanceType:
    """An instance type; `zones` and `spot` map zone to price of on-demand and spot offerings."""
    if offerings is None:
        prices = zones if zones is not None or spot is not None else {"a": 0.1, "b": 0.1, "c": 0.1}
        offerings = [offering(zone, "on-demand", price) for zone, price in (prices or {}).items()]
        offerings += [offering(zone, "spot", price) for zone, price in (spot or {}).items()]
    sold = tuple(offerings)
    fixed = {
        names.INSTANCE_TYPE: name,
        names.ARCH: arch,
        names.OS: os,
        **{key(k): v for k, v in (labels or {}).items()},
    }
    requirements = Requirements.of_labels(fixed).merged(
        [
            Requirement.of(names.ZONE, "In", {o.zone for o in sold}),
            Requirement.of(names.CAPACITY_TYPE, "In", {o.capacity_type for o in sold}),
        ]
    )
    capacity = {"cpu": cpu, "memory": memory, "pods": pods, **(extra or {})}
    return InstanceType(
        name,
        requirements,
        sold,
        Resources.parse(capacity),
        Overhead(kube_reserved=Resources.parse(overhead)),
        volume_limits=dict(volume_limits or {}),
    )


def nodepool(
    name: str = "general",
    *,
    requires: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    startup_taints: Iterable[str] = (),
    limits: Quantities | None = None,
    weight: int | None = None,
    min_values: Mapping[str, int] | None = None,
    replicas: int | None = None,
    ready: bool = True,
) -> NodePool:
    """A NodePool that is Ready."""
    least = {key(k): n for k, n in (min_values or {}).items()}
    entries = [
        NodeSelectorRequirementWithMinValues(
            key=k, operator=operator, values=values or None, min_values=least.get(k)
        )
        for k, operator, values in rules(requires)
    ]
    status = "True" if ready else "False"
    return NodePool(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=NOW),
        spec=NodePoolSpec(
            template=NodeClaimTemplate(
                metadata=TemplateMeta(labels=dict(labels) if labels else None),
                spec=NodeClaimTemplateSpec(
                    taints=[taint(text) for text in taints] or None,
                    startup_taints=[taint(text) for text in startup_taints] or None,
                    requirements=entries,
                    node_class_ref=NodeClassReference(
                        group="karpenter.k8s.aws", kind="EC2NodeClass", name="default"
                    ),
                ),
            ),
            limits=limits,
            weight=weight,
            replicas=replicas,
        ),
        status=NodePoolStatus(conditions=[Condition(type="Ready", status=status)]),
    )


def node(
    name: str = "",
    *,
    pool: str = "",
    cpu: str | int = 2,
    memory: str = "8Gi",
    pods: int = 110,
    zone: str = "a",
    capacity_type: str = "on-demand",
    instance_type: str = "m.large",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    initialized: bool = True,
    extra: Mapping[str, str | int] | None = None,
) -> Node:
    """A Node that is Ready; of a pool, it is registered and (unless told otherwise) initialized."""
    name = name or f"node-{next(_count)}"
    fixed = {
        names.HOSTNAME: name,
        names.ZONE: zone,
        names.ARCH: "amd64",
        names.OS: "linux",
        names.INSTANCE_TYPE: instance_type,
    }
    if pool:
        fixed |= {
            names.NODEPOOL: pool,
            names.CAPACITY_TYPE: capacity_type,
            names.REGISTERED: "true",
        }
        if initialized:
            fixed[names.INITIALIZED] = "true"
    amounts: Quantities = {"cpu": cpu, "memory": memory, "pods": pods, **(extra or {})}
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels={**fixed, **{key(k): v for k, v in (labels or {}).items()}},
            creation_timestamp=NOW,
        ),
        spec=NodeSpec(
            provider_id=f"aws:///{zone}/i-{name}", taints=[taint(text) for text in taints] or None
        ),
        status=NodeStatus(
            capacity=amounts,
            allocatable=dict(amounts),
            conditions=[Condition(type="Ready", status="True")],
        ),
    )


def node_claim(
    name: str = "",
    *,
    pool: str = "general",
    node: Node | None = None,
    zone: str = "a",
    capacity_type: str = "on-demand",
    instance_type: str = "m.large",
    cpu: str | int = 2,
    memory: str = "8Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    startup_taints: Iterable[str] = (),
    launched: bool = True,
) -> NodeClaim:
    """A NodeClaim, launched; of `node` when one is given."""
    if node is not None:
        name = name or f"{node.name}-claim"
    name = name or f"{pool}-{next(_count)}"
    fixed = {
        names.NODEPOOL: pool,
        names.ZONE: zone,
        names.CAPACITY_TYPE: capacity_type,
        names.INSTANCE_TYPE: instance_type,
        names.ARCH: "amd64",
        names.OS: "linux",
        **{key(k): v for k, v in (labels or {}).items()},
    }
    amounts: Quantities = {"cpu": cpu, "memory": memory, "pods": pods}
    provider_id = node.spec.provider_id if node is not None else f"aws:///{zone}/i-{name}"
    conditions = [Condition(type="Launched", status="True" if launched else "Unknown")]
    if node is not None:
        fixed |= {k: v for k, v in node.labels.items() if k != names.HOSTNAME}
        amounts = dict(node.status.capacity or {})
        conditions += [Condition(type=t, status="True") for t in ("Registered", "Initialized")]
    return NodeClaim(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=fixed, creation_timestamp=NOW),
        spec=NodeClaimSpec(
            taints=[taint(text) for text in taints] or None,
            startup_taints=[taint(text) for text in startup_taints] or None,
            node_class_ref=NodeClassReference(
                group="karpenter.k8s.aws", kind="EC2NodeClass", name="default"
            ),
        ),
        status=NodeClaimStatus(
            node_name=node.name if node is not None else "",
            provider_id=provider_id if launched else "",
            capacity=amounts if launched else None,
            allocatable=dict(amounts) if launched else None,
            conditions=conditions,
        ),
    )


def claim(
    name: str, *, volume: str = "", storage_class: str = "gp3", namespace: str = "default"
) -> PersistentVolumeClaim:
    """A claim, bound if it has a volume."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PersistentVolumeClaimSpec(storage_class_name=storage_class, volume_name=volume),
        status=PersistentVolumeClaimStatus(phase="Bound" if volume else "Pending"),
    )


def volume(name: str, zone: str = "") -> PersistentVolume:
    """An EBS volume, in a zone."""
    affinity = NodeSelector(node_selector_terms=[term(f"zone in {zone}")]) if zone else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            csi=CSIVolumeSource(driver=EBS_DRIVER, volume_handle=f"vol-{name}"),
            node_affinity=VolumeNodeAffinity(required=affinity) if affinity else None,
        ),
    )


def storage_class(
    name: str = "gp3",
    *,
    mode: str = "WaitForFirstConsumer",
    zones: tuple[str, ...] = (),
    key: str = "",
) -> StorageClass:
    """A class of EBS volumes; `zones` are its allowed topologies, under `key`."""
    topology = TopologySelectorTerm(
        match_label_expressions=[
            TopologySelectorRequirement(
                key=key or "topology.kubernetes.io/zone", values=list(zones)
            )
        ]
    )
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=EBS_DRIVER,
        volume_binding_mode=mode,
        allowed_topologies=[topology] if zones else None,
    )


def catalog(
    *objects: PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | VolumeAttachment,
) -> VolumeCatalog:
    """A catalog of these objects."""
    return VolumeCatalog(
        claims={o.key: o for o in objects if isinstance(o, PersistentVolumeClaim)},
        volumes={o.key: o for o in objects if isinstance(o, PersistentVolume)},
        classes={o.key: o for o in objects if isinstance(o, StorageClass)},
        csi_nodes={o.key: o for o in objects if isinstance(o, CSINode)},
        attachments=by_node(o for o in objects if isinstance(o, VolumeAttachment)),
    )


def attachment(volume_name: str, node_name: str, driver: str = EBS_DRIVER) -> VolumeAttachment:
    """A volume that is attached to a node."""
    return VolumeAttachment(
        metadata=ObjectMeta(name=f"csi-{volume_name}-{node_name}"),
        spec=VolumeAttachmentSpec(
            node_name=node_name,
            attacher=driver,
            source=AttachmentSource(persistent_volume_name=volume_name),
        ),
    )


WorldPart = NodePool | InstanceType | Pod | Node | NodeClaim | PoolOffer


def world(
    *parts: WorldPart,
    options: SolverOptions | None = None,
    volumes: VolumeCatalog | None = None,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    leaving: Iterable[str] = (),
) -> Problem:
    """Put a cluster together and ask for a decision on it.

    Every pool can buy every instance type given. Pods owned by a DaemonSet and not bound are the
    representatives of their DaemonSet. Nodes named in `leaving` are going.

    Raises:
        ValueError: the cluster could not exist; the message says why.

    """
    bound: dict[str, list[Pod]] = {}
    nodes = {part.name: part for part in parts if isinstance(part, Node)}
    for part in parts:
        if isinstance(part, Pod) and part.spec.node_name:
            if part.spec.node_name not in nodes:
                raise ValueError(f"pod {part.key} runs on {part.spec.node_name}, which is absent")
            bound.setdefault(part.spec.node_name, []).append(part)
    _refuse_doubles(parts)
    claims = [part for part in parts if isinstance(part, NodeClaim)]
    state = _state_nodes(nodes, claims, bound)
    types = tuple(part for part in parts if isinstance(part, InstanceType))
    offers = [part for part in parts if isinstance(part, PoolOffer)]
    offers += [
        PoolOffer(node_pool=part, instance_types=types, unready=not_ready(part))
        for part in parts
        if isinstance(part, NodePool)
    ]
    waiting = [part for part in parts if isinstance(part, Pod) and not part.spec.node_name]
    going = set(leaving)
    return Problem(
        now=NOW,
        pods=tuple(p for p in waiting if not is_owned_by_daemon_set(p)),
        daemon_pods=tuple(p for p in waiting if is_owned_by_daemon_set(p)),
        nodes=tuple(one for one in state if one.name not in going),
        leaving=tuple(one for one in state if one.name in going),
        node_pools=ordered(offers),
        volumes=volumes or VolumeCatalog(),
        namespaces=namespaces or {},
        options=options or SolverOptions(),
    )


def _refuse_doubles(parts: Sequence[WorldPart]) -> None:
    seen: set[tuple[str, str]] = set()
    for part in parts:
        if isinstance(part, PoolOffer):
            continue
        name = part.name if isinstance(part, InstanceType) else part.key
        identity = (type(part).__name__, name)
        if identity in seen:
            raise ValueError(f"there are two of {identity[0]} {identity[1]}")
        seen.add(identity)


def _state_nodes(
    nodes: Mapping[str, Node], claims: Sequence[NodeClaim], bound: Mapping[str, list[Pod]]
) -> list[StateNode]:
    by_provider = {claim.status.provider_id: claim for claim in claims}
    state = []
    paired = set()
    for found in nodes.values():
        claim = by_provider.get(found.spec.provider_id)
        if claim is None and names.NODEPOOL in found.labels:
            claim = node_claim(pool=found.labels[names.NODEPOOL], node=found)
        if claim is not None:
            paired.add(claim.name)
        on_it = tuple(sorted(bound.get(found.name, ()), key=lambda one: one.key))
        state.append(StateNode(node=found, node_claim=claim, pods=on_it))
    state.extend(StateNode(node_claim=claim) for claim in claims if claim.name not in paired)
    return state


def shuffled(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the same problem with its pods, nodes and daemons in another order."""

    def mixed(items: tuple[Any, ...]) -> tuple[Any, ...]:
        ranked = sorted(range(len(items)), key=lambda i: (order[i % len(order)] if order else 0, i))
        return tuple(items[position] for position in ranked)

    return replace(
        problem,
        pods=mixed(problem.pods),
        nodes=mixed(problem.nodes),
        daemon_pods=mixed(problem.daemon_pods),
    )


def copied(found: Pod, **changes: Any) -> Pod:
    """Return a pod with other metadata fields."""
    metadata = msgspec.structs.replace(found.metadata, **changes)
    return msgspec.structs.replace(found, metadata=metadata)
