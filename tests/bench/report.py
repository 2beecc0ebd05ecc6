"""Measurements as tables for a person and as `build/bench/NAME.json` for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.cases import Case
from tests.bench.measure import Measured

MIB: Final = 2**20
_HEAD: Final = (
    f"{'case':<34} | {'pods/s':>9}{'Karp.':>9}{'ratio':>8} | {'nodes':>6}{'Karp.':>7} |"
    f"{'$/h':>10}{'Karp.':>10}{'ratio':>7} |{'MiB':>6}{'Karp.':>7}"
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A case on all sides."""

    case: Case
    ours: Measured
    benchmark: Measured | None = None
    """Karpenter's own benchmark."""
    same_pods: Measured | None = None
    """Karpenter's scheduler on exactly our pods."""

    @property
    def karpenter(self) -> Measured | None:
        """The side to compare speed and memory with: its own benchmark where there is one."""
        return self.benchmark or self.same_pods

    def rows(self) -> list[dict[str, object]]:
        """Return one row per quantity; `karpenter` and `ratio` are null where it was not run."""
        theirs, same = self.karpenter, self.same_pods
        return [
            self._row(
                "speed",
                self.ours.pods_per_second,
                theirs.pods_per_second if theirs else None,
                "pods/s",
            ),
            self._row(
                "nodes", self.ours.nodes, (same or theirs).nodes if theirs else None, "nodes"
            ),
            self._row(
                "cost", self.ours.usd_per_hour or 0.0, same.usd_per_hour if same else None, "USD/h"
            ),
            self._row(
                "peak memory",
                self.ours.peak_bytes / MIB,
                theirs.peak_bytes / MIB if theirs else None,
                "MiB",
            ),
        ]

    def _row(self, what: str, ours: float, karpenter: float | None, unit: str) -> dict[str, object]:
        return {
            "name": f"{self.case.title}: {what}",
            "ours": round(ours, 3),
            "karpenter": None if karpenter is None else round(karpenter, 3),
            "unit": unit,
            "ratio": round(ours / karpenter, 4) if karpenter else None,
        }

    def line(self) -> str:
        """Return the case's line of the table."""
        ours, theirs, same = self.ours, self.karpenter, self.same_pods
        speed = ours.pods_per_second
        cost, their_cost = ours.usd_per_hour or 0.0, same.usd_per_hour if same else None
        their_nodes = (same or theirs).nodes if theirs and (same or theirs) else None
        return (
            f"{self.case.title:<34} | {speed:>9,.0f}"
            f"{_number(theirs and theirs.pods_per_second, 9)}"
            f"{_number(theirs and speed / theirs.pods_per_second, 7)}× | {ours.nodes:>6}"
            f"{_number(their_nodes, 7)} |{cost:>10.2f}{_number(their_cost, 10, 2)}"
            f"{_number(their_cost and cost / their_cost, 7, 3)} |{ours.peak_bytes / MIB:>6.0f}"
            f"{_number(theirs and theirs.peak_bytes / MIB, 7)}"
        )


def _number(value: float | None, width: int, digits: int = 0) -> str:
    return f"{value:>{width},.{digits}f}" if value is not None else f"{'-':>{width}}"


def table(results: Iterable[Result]) -> str:
    """Return the table, one line per case."""
    return "\n".join([_HEAD, "-" * len(_HEAD), *(one.line() for one in results)])


def memory_rows(small: Result, large: Result) -> list[dict[str, object]]:
    """Return memory per 10,000 pods: what a large case takes beyond a small one."""
    more = (large.case.pods - small.case.pods) / 10_000
    ours = (large.ours.peak_bytes - small.ours.peak_bytes) / MIB / more
    theirs = None
    if large.karpenter and small.karpenter:
        theirs = (large.karpenter.peak_bytes - small.karpenter.peak_bytes) / MIB / more
    return [
        {
            "name": f"memory per 10,000 diverse pods ({small.case.pods:,} to {large.case.pods:,})",
            "ours": round(ours, 1),
            "karpenter": None if theirs is None else round(theirs, 1),
            "unit": "MiB",
            "ratio": round(ours / theirs, 4) if theirs else None,
        }
    ]


def write(folder: Path, results: Sequence[Result]) -> list[Path]:
    """Write one file per group of cases, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[dict[str, object]]] = {}
    for one in results:
        groups.setdefault(one.case.group, []).extend(one.rows())
    mix = [one for one in results if one.case.group == "scheduling-mix"]
    if len(mix) > 1 and mix[-1].case.pods >= 1000:
        groups["memory"] = memory_rows(mix[0], mix[-1])
    paths = []
    for name, rows in groups.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
        paths.append(path)
    return paths
