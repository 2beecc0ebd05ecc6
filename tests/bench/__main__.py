"""Measure our scheduling beside Karpenter's: `make bench`, or `python -m tests.bench --help`.

The whole run takes about a quarter of an hour, nearly all of it Karpenter's; `--sizes 1000` is a
quick one. Karpenter's programs are built on the first run (`tests/parity/binary.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nodewright_local.progress import ConsoleProgress, Progress

from tests.bench.cases import SIZES, Case, cases
from tests.bench.measure import (
    Measured,
    karpenter_on_the_same_pods,
    karpenters_benchmark,
    ours,
)
from tests.bench.report import Result, memory_rows, table, write
from tests.parity.binary import BuildError, Program, binary

FOLDER = Path("build/bench")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=list(SIZES), help="pods of the mix (default: all)"
    )
    parser.add_argument("--only", default="", help="only cases whose name begins so")
    parser.add_argument("--alone", action="store_true", help="leave Karpenter out")
    parser.add_argument("--output", type=Path, default=FOLDER, help=f"default {FOLDER}")
    return parser.parse_args(argv)


def run(chosen: Sequence[Case], progress: Progress, *, alone: bool = False) -> list[Result]:
    """Measure the cases one after the other.

    Raises:
        BuildError: Karpenter's programs cannot be built.

    """
    programs = {} if alone else {one: binary(one, progress) for one in Program}
    results = []
    for case in chosen:
        with progress.step(case.title), tempfile.TemporaryDirectory() as scratch:
            benchmark: Measured | None = None
            same: Measured | None = None
            if programs:
                if case.upstream:
                    benchmark = karpenters_benchmark(
                        programs[Program.BENCHMARK], case, Path(scratch)
                    )
                same = karpenter_on_the_same_pods(programs[Program.PARITY], case, Path(scratch))
            measured = ours(case)
        results.append(Result(case=case, ours=measured, benchmark=benchmark, same_pods=same))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and write the files."""
    asked = arguments(argv)
    chosen = [one for one in cases(asked.sizes) if one.name.startswith(asked.only)]
    try:
        results = run(chosen, ConsoleProgress(), alone=asked.alone)
    except (BuildError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(table(results) + "\n")
    mix = [one for one in results if one.case.group == "scheduling-mix"]
    if len(mix) > 1:
        for row in memory_rows(mix[0], mix[-1]):
            sys.stdout.write(
                f"{row['name']}: {row['ours']} MiB, Karpenter {row['karpenter']} MiB\n"
            )
    for path in write(asked.output, results):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
