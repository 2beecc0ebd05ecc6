"""The Hypothesis vocabulary: small worlds in which every feature meets every other."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    Problem,
    SolverOptions,
)

from tests.builders import (
    WorldPart,
    daemon,
    instance_type,
    near,
    node,
    nodepool,
    offering,
    pod,
    spread,
    world,
)

ZONES = ("a", "b", "c")
APPS = ("web", "db", "job")
TEAMS = ("x", "y")
TAINTS = ("dedicated=x:NoSchedule", "noisy:PreferNoSchedule", "dedicated=y:NoExecute")
TOLERATIONS = ("dedicated=x:NoSchedule", "dedicated", "*", "noisy")

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
        types.append(
            instance_type(
                f"t{number}.{cpu}x",
                cpu=cpu,
                memory=f"{cpu * draw(st.sampled_from([2, 4]))}Gi",
                pods=draw(st.sampled_from([4, 110])),
                offerings=sold,
                arch=draw(st.sampled_from(["amd64", "amd64", "arm64"])),
                overhead={"cpu": "100m"},
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
                    ]
                ),
                max_size=2,
                unique_by=lambda rule: rule.partition(" ")[0],
            )
        )
        limits = draw(
            st.sampled_from([None, None, {"cpu": "8"}, {"nodes": "2"}, {"cpu": "16", "nodes": "3"}])
        )
        pools.append(
            nodepool(
                f"pool{number}",
                requires="; ".join(rules),
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
        }.get(feature, [])
        anti = {
            "zone anti": [near({"app": other})],
            "host anti": [near({"app": other}, "host")],
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
        for replica in range(draw(st.integers(1, 4))):
            runs = bool(running_on) and draw(st.integers(0, 3)) == 0
            made.append(
                pod(
                    f"{app}-{group}-{replica}",
                    cpu="100m" if runs else cpu,
                    labels=mine,
                    requires=requires,
                    tolerates=tolerates,
                    spreads=spreads,
                    affinity=affinity,
                    anti=anti,
                    prefers=[(5, "zone in c")] if feature == "soft spread" else [],
                    prefers_apart=[(1, near(mine, "host"))] if feature == "soft anti" else [],
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
    )
    return world(*parts, options=options)
