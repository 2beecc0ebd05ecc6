"""Objects with a field that cannot be read, each with what is said of it, for tests of the whole way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from nodewright_controller.api.meta import KubeObject, ObjectMeta
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim, ResourceRequests
from nodewright_controller.api.pod import (
    Container,
    ContainerStatus,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodSpec,
    Quantities,
    ResourceRequirements,
)
from nodewright_controller.api.volumes import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from nodewright_controller.api.workloads import (
    DaemonSet,
    DaemonSetSpec,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    PodTemplate,
)
from nodewright_controller.cluster.volumes import EBS_DRIVER

from tests.builders import _affinity, claim, node, node_claim, nodepool, pod, spread, volume

ODD = LabelSelectorRequirement(key="app", operator="Near", values=["web"])
ODD_SELECTOR = LabelSelector(match_expressions=[ODD])
ODD_NODES = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[ODD])])


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A world's odd part."""

    objects: tuple[KubeObject, ...]
    said: str = ""
    """The beginning of what is said of it; empty where the pod or pool itself is told."""
    refused: str = ""
    """The pod that gets no place because of it."""
    taken: int | None = None
    """Millicores that count on node `busy`."""


def of_node(**status: Quantities) -> tuple[Node, ...]:
    odd = node("odd", cpu=64)
    return (replace(odd, status=replace(odd.status, **status)),)


def of_claim(**status: Quantities) -> tuple[NodeClaim, ...]:
    odd = node_claim("odd", cpu=64)
    return (replace(odd, status=replace(odd.status, **status)),)


def of_pod(running: Pod, **fields: Any) -> tuple[KubeObject, ...]:
    """A pod that runs on the node `busy`."""
    return node("busy"), replace(running, spec=replace(running.spec, **fields))


def running(**fields: Any) -> Pod:
    return pod("runs", node="busy", **fields)


def asking(requests: Quantities | None = None, limits: Quantities | None = None) -> list[Container]:
    resources = ResourceRequirements(requests=requests, limits=limits)
    return [Container(name="main", resources=resources)]


def daemon_set(spec: PodSpec) -> DaemonSet:
    return DaemonSet(
        metadata=ObjectMeta(name="odd", namespace="kube-system"),
        spec=DaemonSetSpec(template=PodTemplate(spec=spec)),
    )


def limit_range(**defaults: Quantities) -> LimitRange:
    item = LimitRangeItem(type="Container", **defaults)
    return LimitRange(
        metadata=ObjectMeta(name="odd", namespace="kube-system"), spec=LimitRangeSpec(limits=[item])
    )


def odd_volume() -> PersistentVolume:
    affinity = VolumeNodeAffinity(required=ODD_NODES)
    csi = volume("pv").spec.csi
    return PersistentVolume(
        metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(csi=csi, node_affinity=affinity)
    )


def with_status(running_pod: Pod, allocated: Quantities) -> Pod:
    statuses = [ContainerStatus(name="main", allocated_resources=allocated)]
    return replace(running_pod, status=replace(running_pod.status, container_statuses=statuses))


NOT = "is no quantity such as 500m, 2 or 4Gi"

BROKEN: dict[str, Broken] = {
    "a node's allocatable": Broken(
        objects=of_node(allocatable={"cpu": "abc", "memory": "64Gi", "pods": "110"}),
        said=f"Node odd: status.allocatable[cpu]: 'abc' {NOT}; correct it, until then it takes no",
    ),
    "a node's capacity": Broken(
        objects=of_node(capacity={"memory": "1 Gi"}, allocatable={}),
        said="Node odd: status.capacity[memory]: '1 Gi'",
    ),
    "the allocatable of a claim in flight": Broken(
        objects=of_claim(allocatable={"cpu": "64", "pods": "all"}),
        said="NodeClaim odd: status.allocatable[pods]: 'all'",
    ),
    "the capacity of a claim in flight": Broken(
        objects=of_claim(capacity={"cpu": "-64"}, allocatable={}),
        said="NodeClaim odd: status.capacity[cpu]: '-64'",
    ),
    "the requests of a claim": Broken(
        objects=(
            replace(
                node_claim("odd", cpu="1m"),
                spec=replace(
                    node_claim("odd").spec, resources=ResourceRequests(requests={"cpu": "x"})
                ),
            ),
        ),
        said="NodeClaim odd: spec.resources.requests[cpu]: 'x'",
    ),
    "the requests of a pod that runs": Broken(
        objects=of_pod(running(), containers=asking({"cpu": "1900m", "memory": "x"})),
        said="Pod default/runs: spec.containers[main].resources.requests[memory]: 'x'",
        taken=1900,
    ),
    "a request below zero": Broken(
        objects=of_pod(running(), containers=asking({"cpu": "-8"}, {"cpu": "1900m"})),
        said="Pod default/runs: spec.containers[main].resources.requests[cpu]: '-8'",
        taken=1900,
    ),
    "the limits of a pod that runs": Broken(
        objects=of_pod(running(), containers=asking({"cpu": "1900m"}, {"memory": "x"})),
        said="Pod default/runs: spec.containers[main].resources.limits[memory]: 'x'",
        taken=1900,
    ),
    "an init container of a pod that runs": Broken(
        objects=of_pod(
            running(cpu="1900m"), init_containers=[replace(asking({"cpu": "x"})[0], name="first")]
        ),
        said="Pod default/runs: spec.initContainers[first].resources.requests[cpu]: 'x'",
        taken=1900,
    ),
    "the overhead of a pod that runs": Broken(
        objects=of_pod(running(cpu="1900m"), overhead={"cpu": "much"}),
        said="Pod default/runs: spec.overhead[cpu]: 'much'",
        taken=1900,
    ),
    "the resources of a whole pod that runs": Broken(
        objects=of_pod(running(cpu="1900m"), resources=ResourceRequirements(requests={"cpu": "x"})),
        said="Pod default/runs: spec.resources.requests[cpu]: 'x'",
        taken=1900,
    ),
    "what a kubelet has granted": Broken(
        objects=(node("busy"), with_status(running(cpu="1900m"), {"cpu": "x"})),
        said="Pod default/runs: status.containerStatuses[main].allocatedResources[cpu]: 'x'",
        taken=1900,
    ),
    "the anti-affinity of a pod that runs": Broken(
        objects=(
            node("busy"),
            running(anti=[PodAffinityTerm(topology_key="zone", label_selector=ODD_SELECTOR)]),
        ),
        taken=100,
    ),
    "how many volumes a driver attaches": Broken(
        objects=(
            node("busy", cpu=64),
            CSINode(
                metadata=ObjectMeta(name="busy"),
                spec=CSINodeSpec(
                    drivers=[
                        CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=-1))
                    ]
                ),
            ),
        ),
        said=f"CSINode busy: spec.drivers[{EBS_DRIVER}].allocatable.count: -1 is below 0",
    ),
    "where a volume can be used": Broken(
        objects=(claim("data", volume="pv"), odd_volume(), pod("db", claims=["data"])),
        said="PersistentVolume pv: spec.nodeAffinity.required.nodeSelectorTerms[0]: 'Near' cannot",
        refused="default/db",
    ),
    "a claim without its volume": Broken(
        objects=(claim("data", volume="gone"), pod("db", claims=["data"])), refused="default/db"
    ),
    "the requests of a DaemonSet": Broken(
        objects=(daemon_set(PodSpec(containers=asking({"cpu": "x"}))),),
        said="DaemonSet kube-system/odd: spec.template.spec.containers[main].resources.requests",
    ),
    "the node affinity of a DaemonSet": Broken(
        objects=(
            daemon_set(
                PodSpec(
                    containers=asking(),
                    affinity=_affinity([ODD_NODES.node_selector_terms[0]], [], [], [], [], [])
                    if ODD_NODES.node_selector_terms
                    else None,
                )
            ),
        ),
        said="DaemonSet kube-system/odd: spec.template.spec.affinity.nodeAffinity[0]: 'Near'",
    ),
    "a default of a LimitRange": Broken(
        objects=(
            daemon_set(PodSpec(containers=asking())),
            limit_range(default={"cpu": "x"}, default_request={"memory": "y"}),
        ),
        said="LimitRange kube-system/odd: spec.limits[0].default[cpu]: 'x'",
    ),
    "the limits of another NodePool": Broken(objects=(nodepool("odd", limits={"cpu": "much"}),)),
    "a pod that waits": Broken(objects=(pod("db", cpu="x"),), refused="default/db"),
    "the node affinity of a pod that waits": Broken(
        objects=(
            replace(
                pod("db"),
                spec=replace(
                    pod("db").spec,
                    affinity=_affinity(
                        list(ODD_NODES.node_selector_terms or ()), [], [], [], [], []
                    ),
                ),
            ),
        ),
        refused="default/db",
    ),
    "the spread of a pod that waits": Broken(
        objects=(
            replace(
                pod("db"),
                spec=replace(
                    pod("db").spec,
                    topology_spread_constraints=[
                        replace(spread("zone"), label_selector=ODD_SELECTOR)
                    ],
                ),
            ),
        ),
    ),
}
