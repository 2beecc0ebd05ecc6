"""The Hypothesis vocabulary: small worlds in which every feature meets every other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import VolumeAttachment
from nodewright_controller.api.volumes import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    VolumeNodeResources,
)
from nodewright_controller.cluster.volumes import EBS_DRIVER, VolumeCatalog, by_node
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.scheduling.guard import Bar, Miss
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    Problem,
    SolverOptions,
)

from tests.builders import (
    NOW,
    WorldPart,
    attachment,
    catalog,
    claim,
    daemon,
    instance_type,
    near,
    node,
    nodepool,
    offering,
    pod,
    spread,
    storage_class,
    volume,
    world,
)

ZONES = ("a", "b", "c")
APPS = ("web", "db", "job")
TEAMS = ("x", "y")
TAINTS = ("dedicated=x:NoSchedule", "noisy:PreferNoSchedule", "dedicated=y:NoExecute")
TOLERATIONS = ("dedicated=x:NoSchedule", "dedicated", "*", "noisy")

_COUNTABLE = ("type exists", "arch exists", "zone in a,b")
NAMESPACES = {"default": {"env": "test"}, "shop": {"env": "prod"}, "bank": {"env": "prod"}}

label_values = st.sampled_from(["a", "b", "c", "1", "2", "7", "x"])


@st.composite
def requirements(draw: st.DrawFn, key: str = "key") -> Requirement:
    """One requirement on a fixed key, of any operator."""
    operator = draw(
        st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"])
    )
    if operator in ("In", "NotIn"):
        values = draw(st.lists(label_values, min_size=1 if operator == "In" else 0, max_size=3))
    elif operator in ("Exists", "DoesNotExist"):
        values = []
    else:
        values = [str(draw(st.integers(0, 8)))]
    return Requirement.of(key, operator, values)


@st.composite
def instance_types(draw: st.DrawFn) -> list[InstanceType]:
    """One to four types with offerings of their own."""
    types = []
    for number in range(draw(st.integers(1, 4))):
        cpu = draw(st.sampled_from([1, 2, 4, 8]))
        pairs = draw(
            st.lists(
                st.tuples(st.sampled_from(ZONES), st.sampled_from(["on-demand", "spot"])),
                min_size=1,
                max_size=4,
                unique=True,
            )
        )
        sold = [
            offering(
                zone,
                capacity,
                round(cpu * draw(st.sampled_from([0.04, 0.05, 0.06])), 3),
                available=draw(st.sampled_from([True, True, True, False])),
            )
            for zone, capacity in pairs
        ]
        if draw(st.integers(0, 3)) == 0:
            reservation, zone = draw(st.sampled_from([("cr-1", "a"), ("cr-2", "b")]))
            left = {"cr-1": 1, "cr-2": 0}[reservation]
            sold.append(offering(zone, "reserved", 0.001, reservation=reservation, reserved=left))
        types.append(
            instance_type(
                f"t{number}.{cpu}x",
                cpu=cpu,
                memory=f"{cpu * draw(st.sampled_from([2, 4]))}Gi",
                pods=draw(st.sampled_from([4, 110])),
                offerings=sold,
                arch=draw(st.sampled_from(["amd64", "amd64", "arm64"])),
                overhead={"cpu": "100m"},
                volume_limits=draw(st.sampled_from([{}, {EBS_DRIVER: 2}])),
            )
        )
    return types


@st.composite
def node_pools(draw: st.DrawFn) -> list[NodePool]:
    """One to three pools."""
    pools = []
    for number in range(draw(st.integers(1, 3))):
        rules = draw(
            st.lists(
                st.sampled_from(
                    [
                        "zone in a,b",
                        "zone not in c",
                        "capacity in on-demand",
                        "arch in amd64",
                        "team in x,y",
                        "team exists",
                        "slot in 1,2,3",
                        "type exists",
                        "arch exists",
                    ]
                ),
                max_size=2,
                unique_by=lambda rule: rule.partition(" ")[0],
            )
        )
        limits = draw(
            st.sampled_from([None, None, {"cpu": "8"}, {"nodes": "2"}, {"cpu": "16", "nodes": "3"}])
        )
        counted = [rule.partition(" ")[0] for rule in rules if rule in _COUNTABLE]
        pools.append(
            nodepool(
                f"pool{number}",
                requires="; ".join(rules),
                min_values={key: draw(st.integers(1, 2)) for key in counted},
                labels={"team": "x"} if draw(st.booleans()) and "team" not in str(rules) else None,
                taints=draw(st.lists(st.sampled_from(TAINTS), max_size=1)),
                limits=dict(limits) if limits else None,
                weight=draw(st.sampled_from([None, 1, 50])),
            )
        )
    return pools


@st.composite
def nodes(draw: st.DrawFn, pools: Sequence[NodePool]) -> list[Node]:
    """Up to three nodes, of a pool or of nobody."""
    found = []
    for number in range(draw(st.integers(0, 3))):
        pool = draw(st.sampled_from(["", *(p.name for p in pools)]))
        found.append(
            node(
                f"n{number}",
                pool=pool,
                zone=draw(st.sampled_from(ZONES)),
                cpu=draw(st.sampled_from([1, 2, 4])),
                labels={"team": draw(st.sampled_from(TEAMS))} if draw(st.booleans()) else None,
                taints=draw(st.lists(st.sampled_from(TAINTS), max_size=1)),
                initialized=draw(st.booleans()),
            )
        )
    return found


def _wishes(feature: str, mine: Mapping[str, str], other: str) -> dict[str, Any]:
    """The wishes of a feature, as fields of a pod."""
    if feature == "soft spread":
        return {"prefers": [(5, "zone in c")]}
    if feature == "soft anti":
        return {"prefers_apart": [(1, near(mine, "host"))]}
    if feature == "soft affinity":
        return {"prefers_near": [(1, near({"app": other})), (50, near(mine, "host"))]}
    if feature == "wishes":
        return {
            "prefers": [(1, "zone in a"), (90, "zone in b"), (90, "nowhere in q")],
            "prefers_apart": [(2, near({"app": other}, "zone")), (80, near(mine, "host"))],
        }
    return {}


VOLUMES = catalog(
    *(
        claim(name, namespace=namespace, volume=f"{namespace}-{name}")
        for namespace in NAMESPACES
        for name in ("in-a", "in-c", "anywhere")
    ),
    *(
        claim(name, namespace=namespace, storage_class=class_)
        for namespace in NAMESPACES
        for name, class_ in (("late", "gp3"), ("late-b", "gp3-b"))
    ),
    *(
        volume(f"{namespace}-{name}", zone)
        for namespace in NAMESPACES
        for name, zone in (("in-a", "a"), ("in-c", "c"), ("anywhere", ""))
    ),
    storage_class("gp3"),
    storage_class("gp3-b", zones=("b",)),
)
"""Claims of every kind in every namespace: bound in a zone, bound anywhere, and not bound yet."""


@st.composite
def storage_on(draw: st.DrawFn, existing: Iterable[str]) -> VolumeCatalog:
    """The claims, with what nodes say of their driver and what is attached to them."""
    bound = sorted(VOLUMES.volumes)
    drivers: list[CSINodeDriver] | None
    csi_nodes: dict[str, CSINode] = {}
    attached: list[VolumeAttachment] = []
    for name in existing:
        said = draw(st.sampled_from(["nothing", "nothing", "no driver", "no count", "1", "3"]))
        if said != "nothing":
            room = VolumeNodeResources(count=int(said)) if said.isdigit() else None
            drivers = [CSINodeDriver(name=EBS_DRIVER, allocatable=room)]
            spec = CSINodeSpec(drivers=None if said == "no driver" else drivers)
            csi_nodes[name] = CSINode(metadata=ObjectMeta(name=name), spec=spec)
        left = draw(st.lists(st.sampled_from([*bound, "gone"]), max_size=2, unique=True))
        attached += [attachment(volume_name, name) for volume_name in left]
    return replace(VOLUMES, csi_nodes=csi_nodes, attachments=by_node(attached))


@st.composite
def claim_names(draw: st.DrawFn) -> list[str]:
    """One or two claims; now and then one that does not exist."""
    names = ["in-a", "in-c", "anywhere", "late", "late-b", "late", "anywhere", "missing"]
    return draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))


@st.composite
def pods(draw: st.DrawFn, running_on: Sequence[str] = ()) -> list[Pod]:
    """A few groups of like pods; with `running_on`, some of them run there."""
    made: list[Pod] = []
    for group in range(draw(st.integers(1, 4))):
        app = draw(st.sampled_from(APPS))
        other = draw(st.sampled_from(APPS))
        feature = draw(
            st.sampled_from(
                [
                    "plain",
                    "zone spread",
                    "host spread",
                    "soft spread",
                    "capacity spread",
                    "slot spread",
                    "zone affinity",
                    "host affinity",
                    "zone anti",
                    "host anti",
                    "soft anti",
                    "soft affinity",
                    "wishes",
                    "anti of prod",
                    "affinity of test",
                    "volume",
                    "port",
                ]
            )
        )
        mine = {"app": app}
        spreads = {
            "zone spread": [spread("zone", mine)],
            "host spread": [spread("host", mine)],
            "soft spread": [spread("zone", mine, soft=True)],
            "capacity spread": [spread("capacity", mine)],
            "slot spread": [spread("slot", mine)],
        }.get(feature, [])
        affinity = {
            "zone affinity": [near({"app": other})],
            "host affinity": [near({"app": other}, "host")],
            "affinity of test": [near({"app": other}, in_namespaces={"env": "test"})],
        }.get(feature, [])
        anti = {
            "zone anti": [near({"app": other})],
            "host anti": [near({"app": other}, "host")],
            "anti of prod": [near({"app": other}, in_namespaces={"env": "prod"})],
        }.get(feature, [])
        requires = draw(
            st.sampled_from(
                [
                    [],
                    [],
                    [],
                    ["zone in a"],
                    ["zone in a", "zone in b,c"],
                    ["zone not in b"],
                    ["capacity in spot"],
                    ["arch in arm64"],
                    ["team in x"],
                    ["team exists"],
                    ["team not in x"],
                    ["team absent"],
                    ["nowhere in q"],
                ]
            )
        )
        tolerates = draw(st.lists(st.sampled_from(TOLERATIONS), max_size=2, unique=True))
        cpu = draw(st.sampled_from(["100m", "500m", "900m", "1500m", "3"]))
        namespace = draw(st.sampled_from(["default", "default", *NAMESPACES]))
        wishes = _wishes(feature, mine, other)
        for replica in range(draw(st.integers(1, 4))):
            runs = bool(running_on) and draw(st.integers(0, 3)) == 0
            made.append(
                pod(
                    f"{app}-{group}-{replica}",
                    namespace=namespace,
                    cpu="100m" if runs else cpu,
                    labels=mine,
                    requires=requires,
                    tolerates=tolerates,
                    spreads=spreads,
                    affinity=affinity,
                    anti=anti,
                    **wishes,
                    claims=draw(claim_names()) if feature == "volume" else [],
                    ports=[8080] if feature == "port" else [],
                    node=draw(st.sampled_from(list(running_on))) if runs else "",
                )
            )
    return made


@st.composite
def daemons(draw: st.DrawFn) -> list[Pod]:
    """Up to two DaemonSets."""
    return [
        daemon(
            f"daemon{number}",
            cpu=draw(st.sampled_from(["50m", "300m"])),
            requires=draw(st.sampled_from(["", "zone in a,b", "arch in amd64", "team in x"])),
            tolerates=draw(st.lists(st.sampled_from(TOLERATIONS), max_size=1)),
            ports=draw(st.sampled_from([[], [8080]])),
        )
        for number in range(draw(st.integers(0, 2)))
    ]


@st.composite
def worlds(draw: st.DrawFn) -> Problem:
    """A whole problem."""
    pools = draw(node_pools())
    existing = draw(nodes(pools))
    parts: list[WorldPart] = [*draw(instance_types()), *pools, *existing]
    parts += draw(pods([one.name for one in existing]))
    parts += draw(daemons())
    options = SolverOptions(
        preference_policy=draw(st.sampled_from(list(PreferencePolicy))),
        min_values_policy=draw(st.sampled_from(list(MinValuesPolicy))),
        reserved_strict=draw(st.booleans()),
        reservation_credits=draw(st.sampled_from([{}, {}, {"cr-1": 1, "cr-2": 1}])),
        max_instance_types=draw(st.sampled_from([600, 600, 3])),
    )
    going = (
        draw(st.lists(st.sampled_from([n.name for n in existing]), max_size=1)) if existing else []
    )
    volumes = draw(storage_on([one.name for one in existing]))
    problem = world(*parts, options=options, volumes=volumes, namespaces=NAMESPACES, leaving=going)
    # Some of the pods on a node that is going need a place; the others stay until it is gone.
    moving = [pod for node in problem.leaving for pod in node.pods if draw(st.booleans())]
    problem = replace(problem, pods=(*problem.pods, *moving))
    return replace(problem, barred=draw(bars(problem)))


@st.composite
def bars(draw: st.DrawFn, problem: Problem) -> dict[str, tuple[Bar, ...]]:
    """What missed some of the pods: a type of the first pool, or all of it."""
    if not problem.pods:
        return {}
    offer = problem.node_pools[0]
    keys = draw(st.lists(st.sampled_from([pod.key for pod in problem.pods]), max_size=2))
    types = st.sampled_from(["", *(found.name for found in offer.instance_types)])
    return {
        key: (
            Bar(
                node_pool=offer.node_pool.name,
                instance_type=draw(types),
                miss=Miss.NOT_USED,
                times=2,
                until=NOW + timedelta(minutes=5),
            ),
        )
        for key in keys
    }
