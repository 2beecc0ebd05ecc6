"""Measure our scheduling beside Karpenter's: `make bench`, or `python -m tests.bench --help`.

The whole run takes about a quarter of an hour, nearly all of it Karpenter's; `--sizes 1000` is a
quick one. Karpenter's programs are built on the first run (`tests/parity/binary.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from nodewright_local.progress import ConsoleProgress, Progress

from tests.bench.cases import SIZES, Case, cases
from tests.bench.measure import (
    Measured,
    karpenter_on_the_same_pods,
    karpenters_benchmark,
    ours,
)
from tests.bench.report import HEAD, Result, memory_rows, write
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


def run(chosen: Sequence[Case], progress: Progress, *, alone: bool = False) -> Iterator[Result]:
    """Measure the cases one after the other, and yield each as soon as it is known.

    Raises:
        BuildError: Karpenter's programs cannot be built.

    """
    programs = {} if alone else {one: binary(one, progress) for one in Program}
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
        yield Result(case=case, ours=measured, benchmark=benchmark, same_pods=same)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and write the files, both line by line as they come to be known."""
    asked = arguments(argv)
    chosen = [one for one in cases(asked.sizes) if one.name.startswith(asked.only)]
    results: list[Result] = []
    paths: list[Path] = []
    print_line(HEAD)
    try:
        for result in run(chosen, ConsoleProgress(), alone=asked.alone):
            results.append(result)
            print_line(result.line())
            paths = write(asked.output, results)
    except (BuildError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    mix = [one for one in results if one.case.group == "scheduling-mix"]
    if len(mix) > 1:
        for found in memory_rows(mix[0], mix[-1]):
            print_line(f"{found['name']}: {found['ours']} MiB, Karpenter {found['karpenter']} MiB")
    for path in paths:
        print_line(str(path))
    return 0


def print_line(text: str) -> None:
    """Write a line at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
