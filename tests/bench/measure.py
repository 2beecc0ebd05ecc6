"""One case measured on one side, each in a process of its own so that peak memory means something.

Ours: the whole `solve`. Karpenter's: the `Solve` of its scheduler, without the set-up that its own
benchmark leaves out as well. Best of some repetitions while a run is short.
"""

from __future__ import annotations

import gc
import json
import re
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec
from nodewright_controller.scheduling.solver import solve

from tests.bench.cases import Case, case
from tests.parity.wire import KarpenterDecision, question

PATIENCE_SECONDS: Final = 600.0
"""After this Karpenter's solve of our pods is ended; speed is then that of what it placed.

Karpenter itself ends a solve after 60 s, and starts anew with the pods that are left.
"""
_REPEAT_WITHIN_SECONDS: Final = 3.0
_SHORT_PODS: Final = 500
"""Up to this size Karpenter's benchmark is repeated as well."""
_METRIC: Final = re.compile(r"([0-9.e+]+) (pods/sec|nodes|pods)\b")
# Runs a program and tells its peak memory; small itself, for a child's peak starts at its size.
_WRAPPER: Final = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as out:
    out.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code)
"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What came out."""

    seconds: float
    pods_placed: int
    nodes: int
    peak_bytes: int
    cut_off: bool = False
    """Whether it was ended for lack of patience; nodes and cost then tell nothing."""
    usd_per_hour: float | None = None
    """Unknown where only Karpenter's own benchmark ran: it does not tell."""

    @property
    def pods_per_second(self) -> float:
        """Speed."""
        return self.pods_placed / self.seconds


def measure_here(chosen: Case) -> Measured:
    """Return our side, measured in this process."""
    problem = chosen.make()
    best, spent, decision = float("inf"), 0.0, None
    for _ in range(_repeats(chosen)):
        gc.collect()
        begun = time.perf_counter()
        decision = solve(problem)
        seconds = time.perf_counter() - begun
        best, spent = min(best, seconds), spent + seconds
        if spent > _REPEAT_WITHIN_SECONDS:
            break
    assert decision is not None
    return Measured(
        seconds=best,
        pods_placed=chosen.pods - len(decision.unschedulable) - len(decision.deferred),
        nodes=len(decision.new_claims),
        usd_per_hour=decision.usd_per_hour,
        peak_bytes=_peak_bytes(),
    )


def _repeats(chosen: Case) -> int:
    """Return how often a case is measured on either side: small ones often, for noise is large."""
    return min(30, max(3, 2000 // chosen.pods))


def _peak_bytes() -> int:
    """Return this process's peak; its resource usage would include the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def ours(chosen: Case) -> Measured:
    """Return our side, measured in a fresh process."""
    command = [sys.executable, "-m", "tests.bench.measure", chosen.name]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return msgspec.json.decode(answer.stdout, type=Measured)


def karpenters_benchmark(program: Path, chosen: Case, scratch: Path) -> Measured:
    """Return what Karpenter's own benchmark says about the case.

    Raises:
        RuntimeError: it fails; the message is what it said.

    """
    count = _repeats(chosen) if chosen.pods <= _SHORT_PODS else 1
    output, peak = _run(
        [
            str(program),
            "-test.run=XXX",
            f"-test.bench={chosen.upstream}$",
            "-test.benchtime=1x",
            f"-test.count={count}",
            "-test.timeout=2h",
        ],
        scratch,
    )
    runs = [
        {unit: float(number) for number, unit in _METRIC.findall(line)}
        for line in output.decode().splitlines()
        if line.startswith("Benchmark")
    ]
    if not runs:
        raise RuntimeError(f"no result of {chosen.upstream} in: {output.decode()[-500:]}")
    best = max(runs, key=lambda one: one["pods/sec"])
    return Measured(
        seconds=best["pods"] / best["pods/sec"],
        pods_placed=int(best["pods"]),
        nodes=int(best["nodes"]),
        peak_bytes=peak,
    )


def karpenter_on_the_same_pods(program: Path, chosen: Case, scratch: Path) -> Measured:
    """Return what Karpenter's scheduler does with exactly our pods.

    Raises:
        RuntimeError: it fails; the message is what it said.

    """
    asked = scratch / "question.json"
    asked.write_bytes(question(chosen.name, chosen.make(), solve_seconds=PATIENCE_SECONDS))
    output, peak = _run([str(program)], scratch, stdin=asked)
    decision = msgspec.json.decode(output, type=KarpenterDecision)
    if decision.failure:
        raise RuntimeError(decision.failure)
    return Measured(
        seconds=decision.solve_seconds,
        pods_placed=len(decision.placed),
        nodes=len(decision.claims or ()),
        usd_per_hour=decision.usd_per_hour,
        cut_off=decision.cut_off,
        peak_bytes=peak,
    )


def _run(command: list[str], scratch: Path, stdin: Path | None = None) -> tuple[bytes, int]:
    """Return what a program prints, and its peak memory in bytes."""
    told = scratch / "peak"
    with (stdin or Path("/dev/null")).open("rb") as source:
        answer = subprocess.run(
            [sys.executable, "-S", "-c", _WRAPPER, str(told), *command],
            stdin=source,
            capture_output=True,
            check=False,
            cwd=scratch,
        )
    if answer.returncode != 0:
        raise RuntimeError((answer.stderr or answer.stdout).decode(errors="replace")[-2000:])
    return answer.stdout, int(told.read_text())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(measure_here(case(sys.argv[1])))))
