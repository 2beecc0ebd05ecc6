"""Generated worlds for the comparison with Karpenter: one family per feature, then all at once.

A family is a function of a seeded random generator, so a world can be made again from its name
(`zone-spread-3`). Workloads are Deployments of like pods of ordinary sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from nodewright_controller.api import labels
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.node import Node
from nodewright_controller.api.pod import (
    Container,
    NodeSelector,
    PersistentVolumeClaimSpec,
    Pod,
    ResourceRequirements,
)
from nodewright_controller.api.volumes import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from nodewright_controller.cluster.volumes import EBS_DRIVER, VolumeCatalog
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    Problem,
    SolverOptions,
)

from tests.builders import (
    NOW,
    WorldPart,
    daemon,
    near,
    node,
    nodepool,
    pod,
    spread,
    term,
    world,
)
from tests.parity.catalogue import ZONES, some_types

CPU: Final = ("100m", "250m", "500m", "1", "1500m", "2", "3500m")
MEMORY_PER_CPU: Final = (0.5, 1.0, 2.0, 4.0, 7.5)
TEAMS: Final = ("red", "blue", "green")
CATEGORY: Final = labels.INSTANCE_CATEGORY
FAMILY: Final = labels.INSTANCE_FAMILY


@dataclass(frozen=True, kw_only=True)
class ParityWorld:
    """A problem with a name."""

    name: str
    family: str
    problem: Problem


def _millis(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


def _size(rng: random.Random, largest: int = len(CPU)) -> dict[str, Any]:
    cpu = rng.choice(CPU[:largest])
    memory = max(64, int(_millis(cpu) * rng.choice(MEMORY_PER_CPU)))
    return {"cpu": cpu, "memory": f"{memory}Mi"}


def deployment(rng: random.Random, name: str, count: int, **fields: Any) -> list[Pod]:
    """Return like pods, made one second after the other, labelled `app=name`."""
    size = _size(rng)
    marks = {"app": name, **fields.pop("labels", {})}
    return [
        pod(
            f"{name}-{number}",
            labels=marks,
            created=NOW - timedelta(seconds=rng.randrange(600)),
            **{**size, **fields},
        )
        for number in range(count)
    ]


def several(
    rng: random.Random, make: Callable[[int], Mapping[str, Any]], count: int = 6
) -> list[Pod]:
    """Return some Deployments; `make` gives the fields of each by its number."""
    pods: list[Pod] = []
    for number in range(count):
        pods += deployment(rng, f"app{number}", rng.randint(2, 14), **make(number))
    return pods


def _offered(rng: random.Random, share: float = 0.0) -> Sequence[InstanceType]:
    """Return the catalogue with a share of its offerings out of stock."""
    types = some_types()
    if not share:
        return types
    return [
        replace(
            one,
            offerings=tuple(replace(o, available=rng.random() >= share) for o in one.offerings),
        )
        for one in types
    ]


def _world(*parts: WorldPart | Sequence[WorldPart], **more: Any) -> Problem:
    flat: list[WorldPart] = []
    for part in parts:
        if isinstance(part, Sequence):
            flat.extend(part)
        else:
            flat.append(part)
    return world(*flat, **more)


# Families.


def resources(rng: random.Random) -> Problem:
    """Sizes only, with init containers, ephemeral storage and GPUs among them."""

    def make(number: int) -> Mapping[str, Any]:
        if number == 1:
            first = Container(
                name="init", resources=ResourceRequirements(requests={"cpu": "3", "memory": "1Gi"})
            )
            return {"init_containers": [first]}
        if number == 2:
            return {"requests": {"ephemeral-storage": rng.choice(["1Gi", "6Gi"])}}
        if number == 3:
            return {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
        return {}

    return _world(nodepool(), _offered(rng), several(rng, make))


def selectors(rng: random.Random) -> Problem:
    """Node selectors on zone, architecture, capacity type, category and family."""
    choices = (
        {"zone": rng.choice(ZONES)},
        {"arch": rng.choice(["amd64", "arm64"])},
        {"capacity": rng.choice(["spot", "on-demand"])},
        {CATEGORY: rng.choice(["m", "c", "r"])},
        {FAMILY: rng.choice(["m5", "c6i", "r7g"])},
        {"arch": "arm64", "capacity": "on-demand"},
    )
    return _world(
        nodepool(), _offered(rng), several(rng, lambda _: {"select": rng.choice(choices)}, 8)
    )


def node_affinity(rng: random.Random) -> Problem:
    """Required terms: alternatives, exclusions, comparisons."""
    choices: tuple[list[str], ...] = (
        [f"zone in {ZONES[0]},{ZONES[1]}"],
        [f"zone in {ZONES[2]}", f"zone in {ZONES[0]}"],
        [f"zone not in {rng.choice(ZONES)}; arch in amd64"],
        [f"{labels.INSTANCE_CPU} > 3", "arch in arm64"],
        [f"{labels.INSTANCE_CPU} < 9; {CATEGORY} not in t"],
        [f"{labels.INSTANCE_GENERATION} > 5; capacity in on-demand"],
        [f"{labels.INSTANCE_LOCAL_NVME} exists"],
        [f"{labels.INSTANCE_GPU_NAME} absent; {FAMILY} not in m5,c5"],
        ["nowhere in q", f"zone in {ZONES[1]}"],
    )
    return _world(
        nodepool(requires="arch in amd64,arm64"),
        _offered(rng),
        several(rng, lambda _: {"requires": rng.choice(choices)}, 8),
    )


def taints(rng: random.Random) -> Problem:
    """Pools with taints of all effects; pods that tolerate some of them."""
    pools = [
        nodepool("plain", weight=rng.choice([None, 10])),
        nodepool("team", taints=["team=red:NoSchedule"], weight=rng.choice([None, 5, 50])),
        nodepool("soft", taints=["busy:PreferNoSchedule"], weight=20),
        nodepool("gpu", taints=["gpu:NoExecute"], requires=f"{CATEGORY} in g", weight=30),
        nodepool("startup", startup_taints=["agent:NoSchedule"], requires="arch in arm64"),
    ]
    chosen = rng.sample(pools, rng.randint(2, 5))
    tolerations: tuple[list[str], ...] = ([], ["team=red:NoSchedule"], ["gpu"], ["*"], ["busy"])
    return _world(
        chosen,
        _offered(rng),
        several(rng, lambda _: {"tolerates": rng.choice(tolerations)}, 8),
    )


def weights(rng: random.Random) -> Problem:
    """Weighted pools that overlap; some pods fit only the lighter ones."""
    pools = [
        nodepool("spot-arm", requires="capacity in spot; arch in arm64", weight=80),
        nodepool("spot", requires=f"capacity in spot; {CATEGORY} in c,m", weight=60),
        nodepool("small", requires=f"{labels.INSTANCE_CPU} < 5", weight=40),
        nodepool("rest", requires="capacity in on-demand"),
    ]
    selects: tuple[dict[str, str], ...] = (
        {},
        {},
        {"capacity": "on-demand"},
        {"arch": "amd64"},
        {CATEGORY: "r"},
    )
    return _world(pools, _offered(rng), several(rng, lambda _: {"select": rng.choice(selects)}, 8))


def limits(rng: random.Random) -> Problem:
    """Pools with limits, and one without that takes the rest."""
    pools = [
        nodepool("cheap", weight=50, limits={"cpu": str(rng.choice([8, 16, 32]))}),
        nodepool("few", weight=20, limits={"memory": rng.choice(["64Gi", "128Gi"]), "cpu": "40"}),
        nodepool("rest", requires="capacity in on-demand"),
    ]
    return _world(pools[: rng.randint(1, 3)], _offered(rng), several(rng, lambda _: {}))


def daemon_sets(rng: random.Random) -> Problem:
    """DaemonSets for all nodes, one architecture, one pool; with a blanket toleration."""
    pools = [
        nodepool("general"),
        nodepool("tainted", taints=["team=red:NoSchedule"], labels={"team": "red"}, weight=30),
    ]
    daemons = [
        daemon("agent", cpu="200m", memory="256Mi", tolerates=["*"]),
        daemon("arm", cpu="500m", memory="512Mi", requires="arch in arm64"),
        daemon("red", cpu="1", memory="1Gi", requires="team in red", tolerates=["team"]),
        daemon("gpu", cpu="100m", memory="1Gi", requires=f"{labels.INSTANCE_GPU_NAME} exists"),
    ]
    return _world(
        pools,
        rng.sample(daemons, rng.randint(1, 4)),
        _offered(rng),
        several(rng, lambda _: {"tolerates": rng.choice([[], ["team"]])}),
    )


def zone_spread(rng: random.Random) -> Problem:
    """Hard spread over zones: skews, minDomains, shared selectors, restricted pods."""

    def make(number: int) -> Mapping[str, Any]:
        mine = {"app": f"app{number}"}
        rule = spread(
            "zone",
            mine,
            skew=rng.choice([1, 1, 2]),
            min_domains=rng.choice([None, None, 2, 3]),
            affinity_policy=rng.choice([None, "Honor", "Ignore"]),
        )
        required = rng.choice(["", "", f"zone in {ZONES[0]},{ZONES[1]}"])
        return {"spreads": [rule], "requires": required if rule.min_domains != 3 else ""}

    return _world(nodepool(), _offered(rng), several(rng, make))


def capacity_spread(rng: random.Random) -> Problem:
    """Spread over capacity types and over a label of the pool."""

    def make(number: int) -> Mapping[str, Any]:
        mine = {"app": f"app{number}"}
        return {"spreads": [spread(rng.choice(["capacity", "team"]), mine)]}

    pool = nodepool("general", requires="team in red,blue,green")
    return _world(pool, _offered(rng), several(rng, make))


def host_spread(rng: random.Random) -> Problem:
    """Hard spread over hosts, alone and together with zones."""

    def make(number: int) -> Mapping[str, Any]:
        mine = {"app": f"app{number}"}
        rules = [spread("host", mine, skew=rng.choice([1, 2, 4]))]
        if rng.random() < 0.4:
            rules.append(spread("zone", mine))
        return {"spreads": rules}

    return _world(nodepool(), _offered(rng), several(rng, make))


def pod_affinity(rng: random.Random) -> Problem:
    """Affinity by zone and by host, to oneself and to others."""

    def make(number: int) -> Mapping[str, Any]:
        other = rng.choice([number, number, max(0, number - 1)])
        over = rng.choice(["zone", "zone", "host"])
        return {"affinity": [near({"app": f"app{other}"}, over)], **_size(rng, 4)}

    return _world(nodepool(), _offered(rng), several(rng, make, 5))


def pod_anti_affinity(rng: random.Random) -> Problem:
    """Anti-affinity by host and by zone, to oneself and to others."""

    def make(number: int) -> Mapping[str, Any]:
        other = rng.choice([number, number, max(0, number - 1)])
        return {"anti": [near({"app": f"app{other}"}, "host")]}

    pods = several(rng, make, 4)
    pods += deployment(rng, "zonal", rng.randint(2, 3), anti=[near({"app": "zonal"}, "zone")])
    pods += several(rng, lambda _: {"labels": {"rest": "yes"}, "namespace": "other"}, 3)
    return _world(nodepool(), _offered(rng), pods)


def host_ports(rng: random.Random) -> Problem:
    """Host ports, some of them taken by a daemon."""
    taken = [daemon("exporter", cpu="50m", memory="64Mi", ports=[9100])] * rng.randint(0, 1)
    ports: tuple[list[int], ...] = ([8080], [8080], [8443], [9200, 9300], [])
    return _world(
        nodepool(), taken, _offered(rng), several(rng, lambda _: {"ports": rng.choice(ports)})
    )


def volumes(rng: random.Random) -> Problem:
    """Bound zonal volumes, classes that wait, allowed topologies, attach limits."""
    claims, bound = {}, {}
    pods: list[Pod] = []
    classes = {
        "waits": _class("waits"),
        "two-zones": _class("two-zones", zones=ZONES[:2]),
        "by-driver": _class("by-driver", zones=ZONES[2:], zone_key="topology.ebs.csi.aws.com/zone"),
    }
    for number in range(rng.randint(8, 30)):
        zone = ZONES[number % 3]
        names = []
        for slot in range(rng.choice([1, 1, 2])):
            name = f"data-{number}-{slot}"
            names.append(name)
            volume = f"pv-{name}" if rng.random() < 0.5 else ""
            if volume:
                bound[volume] = _volume(volume, zone)
            kind = rng.choice(["waits", "by-driver" if zone == ZONES[2] else "two-zones"])
            claim = _claim(name, kind, volume)
            claims[claim.key] = claim
        size = _size(rng, 4)
        pods.append(pod(f"db-{number}", labels={"app": "db"}, claims=names, **size))
    nodes = _existing(rng, rng.choice([0, 3]))
    catalog = VolumeCatalog(
        claims=claims,
        volumes=bound,
        classes=classes,
        csi_nodes={one.name: _csi_node(one.name) for one in nodes if isinstance(one, Node)},
    )
    attach = {EBS_DRIVER: rng.choice([4, 26])}
    types = [replace(one, volume_limits=attach) for one in _offered(rng)]
    return _world(nodepool(), nodes, types, pods, several(rng, lambda _: {}, 2), volumes=catalog)


def _csi_node(name: str) -> CSINode:
    driver = CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=2))
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=[driver]))


def _class(name: str, zones: Sequence[str] = (), zone_key: str = labels.ZONE) -> StorageClass:
    terms = [
        TopologySelectorTerm(
            match_label_expressions=[TopologySelectorRequirement(key=zone_key, values=[*zones])]
        )
    ]
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=EBS_DRIVER,
        volume_binding_mode="WaitForFirstConsumer",
        allowed_topologies=terms if zones else None,
    )


def _volume(name: str, zone: str) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            csi=CSIVolumeSource(driver=EBS_DRIVER, volume_handle=f"vol-{name}"),
            node_affinity=VolumeNodeAffinity(
                required=NodeSelector(node_selector_terms=[term(f"zone in {zone}")])
            ),
        ),
    )


def _claim(name: str, class_name: str, volume: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            annotations={"pv.kubernetes.io/bind-completed": "yes"} if volume else None,
        ),
        spec=PersistentVolumeClaimSpec(storage_class_name=class_name, volume_name=volume),
        status=PersistentVolumeClaimStatus(phase="Bound" if volume else "Pending"),
    )


def _existing(rng: random.Random, count: int, pool: str = "general") -> list[WorldPart]:
    """Return nodes with running pods; a few are not initialized, one is nobody's."""
    by_name = {one.name: one for one in some_types()}
    names = ("m5.large", "m5.xlarge", "c6i.2xlarge", "r6i.xlarge", "m6g.2xlarge")
    parts: list[WorldPart] = []
    for number in range(count):
        of = by_name[rng.choice(names)]
        room = of.allocatable.format()
        parts.append(
            node(
                f"node-{number}",
                pool="" if number == 0 else pool,
                cpu=room["cpu"],
                memory=room["memory"],
                pods=int(room["pods"]),
                zone=rng.choice(ZONES),
                capacity_type=rng.choice(["spot", "on-demand"]),
                instance_type=of.name,
                labels={"arch": "arm64" if "g." in of.name else "amd64"},
                taints=rng.choice([[], [], [], ["team=red:NoSchedule"]]),
                initialized=rng.random() < 0.85,
            )
        )
        for one in range(rng.randint(0, 3)):
            app = f"app{rng.randrange(4)}"
            parts.append(
                pod(
                    f"running-{number}-{one}",
                    cpu="250m",
                    memory="256Mi",
                    labels={"app": app},
                    tolerates=["*"],
                    node=f"node-{number}",
                    anti=[near({"app": app}, "host")] if rng.random() < 0.15 else [],
                )
            )
    return parts


def existing_nodes(rng: random.Random) -> Problem:
    """Room on nodes first; spread and anti-affinity see the pods that run there."""

    def make(number: int) -> Mapping[str, Any]:
        mine = {"app": f"app{number}"}
        choices: tuple[Mapping[str, Any], ...] = (
            {},
            {"tolerates": ["team"]},
            {"spreads": [spread("zone", mine)]},
            {"anti": [near(mine, "host")]},
            {"select": {"zone": rng.choice(ZONES)}},
        )
        return {**rng.choice(choices), **_size(rng, 5)}

    return _world(nodepool(), _existing(rng, rng.randint(3, 12)), _offered(rng), several(rng, make))


def preferences(rng: random.Random) -> Problem:
    """Preferred node affinity, soft spreads, preferred (anti-)affinity; respected or ignored."""

    def make(number: int) -> Mapping[str, Any]:
        mine = {"app": f"app{number}"}
        choices: tuple[Mapping[str, Any], ...] = (
            {"prefers": [(10, f"zone in {rng.choice(ZONES)}"), (1, "arch in arm64")]},
            {"prefers": [(5, "nowhere in q")]},
            {"spreads": [spread("zone", mine, soft=True)]},
            {"spreads": [spread("host", mine, soft=True)]},
            {"prefers_apart": [(10, near(mine, "zone")), (1, near(mine, "host"))]},
            {"prefers_near": [(1, near({"app": "app0"}, "zone"))]},
        )
        return rng.choice(choices)

    policy = rng.choice(list(PreferencePolicy))
    options = SolverOptions(preference_policy=policy)
    return _world(nodepool(), _offered(rng), several(rng, make), options=options)


def min_values(rng: random.Random) -> Problem:
    """Pools that ask for several families or types."""
    policy = rng.choice(list(MinValuesPolicy))
    pools = [
        nodepool(
            "flexible",
            requires=f"{FAMILY} exists; type exists",
            min_values={FAMILY: rng.choice([2, 4]), "type": rng.choice([5, 10])},
            weight=10,
        ),
        nodepool("rest", requires="capacity in on-demand"),
    ]
    return _world(
        pools,
        _offered(rng),
        several(rng, lambda _: {}),
        options=SolverOptions(min_values_policy=policy),
    )


def shortages(rng: random.Random) -> Problem:
    """Two offerings in five are out of stock."""
    selects: tuple[dict[str, str], ...] = (
        {},
        {"capacity": "spot"},
        {"zone": rng.choice(ZONES)},
        {"arch": "arm64"},
    )
    return _world(
        nodepool(),
        _offered(rng, 0.4),
        several(rng, lambda _: {"select": rng.choice(selects)}, 8),
    )


def everything(rng: random.Random) -> Problem:
    """All features in one cluster, a few per Deployment."""
    pools = [
        nodepool("general"),
        nodepool("spot", requires="capacity in spot", weight=20, limits={"cpu": "64"}),
        nodepool("red", taints=["team=red:NoSchedule"], labels={"team": "red"}),
    ]
    daemons = [daemon("agent", cpu="150m", memory="200Mi", tolerates=["*"])]

    def make(number: int) -> Mapping[str, Any]:
        mine = {"app": f"app{number}"}
        kinds: tuple[Mapping[str, Any], ...] = (
            {},
            {"spreads": [spread("zone", mine)]},
            {"spreads": [spread("host", mine, skew=2)]},
            {"spreads": [spread("zone", mine, soft=True)]},
            {"anti": [near(mine, "host")]},
            {"affinity": [near(mine, "zone")]},
            {"select": {"arch": "arm64"}},
            {"requires": f"{labels.INSTANCE_CPU} > 3"},
            {"tolerates": ["team"], "requires": "team in red"},
            {"ports": [8080]},
            {"prefers": [(1, f"zone in {ZONES[1]}")]},
        )
        return rng.choice(kinds)

    nodes = _existing(rng, rng.randint(0, 6))
    return _world(pools, daemons, nodes, _offered(rng, 0.1), several(rng, make, 12))


FAMILIES: Final[tuple[Callable[[random.Random], Problem], ...]] = (
    resources,
    selectors,
    node_affinity,
    taints,
    weights,
    limits,
    daemon_sets,
    zone_spread,
    capacity_spread,
    host_spread,
    pod_affinity,
    pod_anti_affinity,
    host_ports,
    volumes,
    existing_nodes,
    preferences,
    min_values,
    shortages,
    everything,
)


def parity_worlds(seeds: int = 6, only: str = "") -> Iterator[ParityWorld]:
    """Yield the worlds, `seeds` per family; `only` selects by the beginning of the name."""
    for family in FAMILIES:
        title = family.__name__.replace("_", "-")
        for seed in range(seeds):
            name = f"{title}-{seed}"
            if name.startswith(only):
                problem = family(random.Random(f"{title} {seed}"))
                yield ParityWorld(name=name, family=title, problem=problem)
