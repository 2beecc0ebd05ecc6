"""Measurements as tables for a person and as `build/bench/NAME.json` for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.cases import Case
from tests.bench.measure import Measured

MIB: Final = 2**20
Row = dict[str, str | float | None]
"""One quantity: name, ours, karpenter, unit, ratio; null where Karpenter was not asked."""
HEAD: Final = (
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

    def rows(self) -> list[Row]:
        """Return speed, nodes, cost and peak memory, in this order."""
        ours, theirs, same = self.ours, self.karpenter, self.same_pods
        placed = same or theirs
        if placed is not None and placed.cut_off:
            placed = self.benchmark
        cost = None if same is None or same.cut_off else same.usd_per_hour
        title = self.case.title
        return [
            row(
                f"{title}: speed",
                ours.pods_per_second,
                theirs.pods_per_second if theirs is not None else None,
                "pods/s",
            ),
            row(f"{title}: nodes", ours.nodes, placed.nodes if placed is not None else None, ""),
            row(
                f"{title}: cost",
                ours.usd_per_hour or 0.0,
                cost,
                "USD/h",
            ),
            row(
                f"{title}: peak memory",
                ours.peak_bytes / MIB,
                theirs.peak_bytes / MIB if theirs is not None else None,
                "MiB",
            ),
        ]

    def line(self) -> str:
        """Return the case's line of the table."""
        speed, nodes, cost, memory = self.rows()
        return (
            f"{self.case.title:<34} | {_cell(speed, 'ours', 9)}{_cell(speed, 'karpenter', 9)}"
            f"{_cell(speed, 'ratio', 7, 1)}x | {_cell(nodes, 'ours', 6)}"
            f"{_cell(nodes, 'karpenter', 7)} |{_cell(cost, 'ours', 10, 2)}"
            f"{_cell(cost, 'karpenter', 10, 2)}{_cell(cost, 'ratio', 7, 3)} |"
            f"{_cell(memory, 'ours', 6)}{_cell(memory, 'karpenter', 7)}"
        )


def _cell(row: Row, key: str, width: int, digits: int = 0) -> str:
    value = row[key]
    return f"{value:>{width},.{digits}f}" if isinstance(value, float) else f"{'-':>{width}}"


def row(name: str, ours: float, karpenter: float | None, unit: str) -> Row:
    """Return a row; the ratio is ours over Karpenter's."""
    return {
        "name": name,
        "ours": round(float(ours), 3),
        "karpenter": None if karpenter is None else round(float(karpenter), 3),
        "unit": unit,
        "ratio": round(ours / karpenter, 4) if karpenter else None,
    }


def memory_rows(small: Result, large: Result) -> list[Row]:
    """Return memory per 10,000 pods: what a large case takes beyond a small one."""
    more = (large.case.pods - small.case.pods) / 10_000 * MIB
    ours = (large.ours.peak_bytes - small.ours.peak_bytes) / more
    theirs = None
    if large.karpenter is not None and small.karpenter is not None:
        theirs = (large.karpenter.peak_bytes - small.karpenter.peak_bytes) / more
    name = f"memory per 10,000 diverse pods ({small.case.pods:,} to {large.case.pods:,})"
    return [row(name, ours, theirs, "MiB")]


def write(folder: Path, results: Sequence[Result]) -> list[Path]:
    """Write one file per group of cases, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[Row]] = {}
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
