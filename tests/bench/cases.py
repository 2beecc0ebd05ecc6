"""What is measured: each case is a problem that can be made again from its name.

The mix and the preference pods are those of Karpenter's own benchmark (`scheduling_mix.py`), and
name the function of its test binary that measures the same thing there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nodewright_controller.api.pod import Pod
from nodewright_controller.scheduling.problem import PreferencePolicy, Problem

from tests.bench.scheduling_mix import (
    CPU,
    MEMORY,
    ZONES,
    diverse_pods,
    instance_types,
    preference_pods,
    problem,
)
from tests.builders import WorldPart, node, nodepool, pod, spread, world

SIZES: Final = (1, 50, 100, 500, 1000, 2000, 5000, 10000, 20000)
SEED: Final = 42
LIKE_PODS: Final = 2000
NODES: Final = 1000
PODS_ONTO_NODES: Final = 10000


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing to measure."""

    name: str
    group: str
    """The file and table it belongs to."""
    title: str
    pods: int
    make: Callable[[], Problem]
    upstream: str = ""
    """The function of Karpenter's own benchmark; empty where it has none."""


def _mix(count: int) -> Problem:
    return problem(diverse_pods(count, random.Random(SEED)), PreferencePolicy.RESPECT)


def _preferences(policy: PreferencePolicy) -> Problem:
    return problem(preference_pods(4000, random.Random(SEED)), policy)


def _like_pods() -> Problem:
    from tests.parity.catalogue import every_type  # brings moto, 100 MiB that no other case needs

    pods = [pod(f"web-{n}", cpu="1", memory="2Gi", labels={"app": "web"}) for n in range(LIKE_PODS)]
    return world(nodepool(), *every_type(), *pods)


def _onto_nodes() -> Problem:
    rng = random.Random(SEED)
    parts: list[WorldPart] = [nodepool(), *instance_types(400)]
    for number in range(NODES):
        parts.append(
            node(
                f"node-{number}",
                pool="general",
                cpu=16,
                memory="32Gi",
                pods=160,
                zone=ZONES[number % 3],
                instance_type="fake-it-15",
            )
        )
        parts += [
            pod(f"running-{number}-{one}", cpu="100m", memory="128Mi", node=f"node-{number}")
            for one in range(3)
        ]
    return world(*parts, *_workload(rng))


def _workload(rng: random.Random) -> Iterator[Pod]:
    """Half plain, a quarter spread over zones, a quarter bound to a zone."""
    for number in range(PODS_ONTO_NODES):
        size = {"cpu": f"{rng.choice(CPU)}m", "memory": f"{rng.choice(MEMORY)}Mi"}
        app = {"app": f"app{number % 20}"}
        name = f"pod-{number}"
        if number % 4 == 2:
            yield pod(name, labels=app, spreads=[spread("zone", app)], **size)  # type: ignore[arg-type]
        elif number % 4 == 3:
            yield pod(name, labels=app, select={"zone": ZONES[number % 3]}, **size)  # type: ignore[arg-type]
        else:
            yield pod(name, labels=app, **size)  # type: ignore[arg-type]


def cases(sizes: Sequence[int] = SIZES) -> tuple[Case, ...]:
    """Return all cases, the mix in the given sizes only."""
    mix = [
        Case(
            name=f"mix-{size}",
            group="scheduling-mix",
            title=f"{size:,} diverse pods",
            pods=size,
            make=lambda size=size: _mix(size),  # type: ignore[misc]
            upstream=f"BenchmarkScheduling{size}",
        )
        for size in sizes
    ]
    preferences = [
        Case(
            name=f"preferences-{policy.lower()}",
            group="preferences",
            title=f"4,000 preference pods, {policy}",
            pods=4000,
            make=lambda policy=policy: _preferences(policy),  # type: ignore[misc]
            upstream=f"Benchmark{policy}Preferences",
        )
        for policy in PreferencePolicy
    ]
    return (
        *mix,
        *preferences,
        Case(
            name="like-pods",
            group="ec2-catalogue",
            title=f"{LIKE_PODS:,} like pods on all of EC2",
            pods=LIKE_PODS,
            make=_like_pods,
        ),
        Case(
            name="onto-nodes",
            group="existing-nodes",
            title=f"{PODS_ONTO_NODES:,} pods onto {NODES:,} nodes",
            pods=PODS_ONTO_NODES,
            make=_onto_nodes,
        ),
    )


def case(name: str) -> Case:
    """Return the case of that name.

    Raises:
        ValueError: there is none.

    """
    size = name.removeprefix("mix-")
    found = {one.name: one for one in cases([int(size)] if size.isdecimal() else [])}
    if name not in found:
        raise ValueError(f"there is no case {name!r}; there are mix-COUNT, {', '.join(found)}")
    return found[name]
