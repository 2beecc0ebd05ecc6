"""Karpenter's scheduling benchmark, rebuilt: its pods, its instance types, our solver.

    python -m tests.bench.scheduling_mix [--pods 1000 5000 10000] [--preferences] [--profile]

Counts and distributions are those of karpenter's scheduling benchmark; the random sequence is our
own (its generator cannot be matched bit for bit). Prints pods/s of the whole `solve`, nodes, cost.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import resource
import sys
import time
from collections.abc import Callable

from nodewright_controller.api.pod import Pod
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.problem import PreferencePolicy, Problem, SolverOptions
from nodewright_controller.scheduling.solver import solve

from tests.builders import instance_type, near, nodepool, offering, pod, spread, world

ZONES = ("test-zone-1", "test-zone-2", "test-zone-3")
CPU = (100, 250, 500, 1000, 1500)
MEMORY = (100, 256, 512, 1024, 2048, 4096)
LETTERS = "abcdefg"


def instance_types(count: int) -> list[InstanceType]:
    """Types 1..count: i cpu, 2i GiB, 10i pods, five offerings at one price each."""
    types = []
    for i in range(1, count + 1):
        price = 0.1 * i + 0.1 * (2 * i * 2**30) / 1e9
        sold = [offering(zone, "spot", price) for zone in ZONES[:2]]
        sold += [offering(zone, "on-demand", price) for zone in ZONES]
        size = "large" if i > 4 and 2 * i > 8 else "small"
        types.append(
            instance_type(
                f"fake-it-{i - 1}",
                cpu=i,
                memory=f"{2 * i}Gi",
                pods=10 * i,
                offerings=sold,
                labels={"integer": str(i), "size": size},
                overhead={"cpu": "100m", "memory": "10Mi"},
            )
        )
    return types


def diverse_pods(count: int, rng: random.Random) -> list[Pod]:
    """A fifth each: plain, zone spread, hostname spread, zone affinity, hostname anti-affinity."""
    made: list[Pod] = []

    def letter() -> str:
        return rng.choice(LETTERS)

    def sized(name: str, **fields: object) -> Pod:
        cpu, memory = rng.choice(CPU), rng.choice(MEMORY)
        return pod(name, cpu=f"{cpu}m", memory=f"{memory}Mi", **fields)  # type: ignore[arg-type]

    def plain(name: str) -> Pod:
        return sized(name, labels={"my-label": letter()})

    def spreading(over: str) -> Callable[[str], Pod]:
        def make(name: str) -> Pod:
            own, other = letter(), letter()
            return sized(
                name, labels={"my-label": own}, spreads=[spread(over, {"my-label": other})]
            )

        return make

    def affine(name: str) -> Pod:
        labels = {"my-affininity": letter()}
        return sized(name, labels=labels, affinity=[near(labels, "zone")])

    def apart(name: str) -> Pod:
        return sized(name, labels={"app": "nginx"}, anti=[near({"app": "nginx"}, "host")])

    kinds = (plain, spreading("zone"), spreading("host"), affine, apart)
    for kind in kinds:
        made.extend(kind(f"pod-{len(made)}") for _ in range(count // 5))
    while len(made) < count:
        made.append(plain(f"pod-{len(made)}"))
    return made


def preference_pods(count: int, rng: random.Random) -> list[Pod]:
    """Like pods that want a zone, an impossible zone anti-affinity, and hosts of their own."""
    cpu, memory = rng.choice(CPU), rng.choice(MEMORY)
    nginx = {"app": "nginx"}
    return [
        pod(
            f"pod-{number}",
            cpu=f"{cpu}m",
            memory=f"{memory}Mi",
            labels=nginx,
            prefers=[(1, "zone in test-zone-1")],
            prefers_apart=[(10, near(nginx, "zone")), (1, near(nginx, "host"))],
        )
        for number in range(count)
    ]


def problem(pods: list[Pod], policy: PreferencePolicy, types: int = 400) -> Problem:
    """The benchmark's world: one pool without requirements, nothing running."""
    pool = nodepool("default", limits={"cpu": "10000000", "memory": "10000000Gi"})
    return world(
        pool, *instance_types(types), *pods, options=SolverOptions(preference_policy=policy)
    )


def measure(name: str, question: Problem) -> None:
    """Solve three times and print a row of the best, by the clock and by processor time."""
    best = (float("inf"), float("inf"))
    decision = Decision()
    for _ in range(3):
        gc.collect()
        wall, processor = time.perf_counter(), time.process_time()
        decision = solve(question)
        took = (time.process_time() - processor, time.perf_counter() - wall)
        best = min(best, took)
    busy, seconds = best
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(
        f"{name:<22} {len(question.pods):>6} pods {seconds:>8.3f} s {busy:>8.3f} cpu-s "
        f"{len(question.pods) / busy:>9.0f} pods/cpu-s {len(decision.new_claims):>6} nodes "
        f"{decision.usd_per_hour:>10.2f} $/h {len(decision.unschedulable):>4} left {peak:>5} MiB\n"
    )


def main() -> None:
    """Print the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, nargs="*", default=[1000, 5000, 10000, 20000])
    parser.add_argument("--preferences", action="store_true")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    profiler = cProfile.Profile()
    questions = [
        (f"diverse {count}", problem(diverse_pods(count, random.Random(42)), policy))
        for count in arguments.pods
        for policy in (PreferencePolicy.RESPECT,)
    ]
    if arguments.preferences:
        questions += [
            (f"preferences {policy}", problem(preference_pods(4000, random.Random(42)), policy))
            for policy in PreferencePolicy
        ]
    if arguments.profile:
        profiler.enable()
    for name, question in questions:
        measure(name, question)
    if arguments.profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
