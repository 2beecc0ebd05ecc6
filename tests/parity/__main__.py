"""Compare our decisions with Karpenter's: `python -m tests.parity [--seeds 6] [--only zone]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.parity.binary import BuildError, Program, binary
from tests.parity.compare import RUNS, compare, table
from tests.parity.worlds import parity_worlds


def main() -> int:
    """Print the table; return 1 if some world fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="worlds per family (default 6)")
    parser.add_argument("--only", default="", help="only worlds whose name begins so")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of Karpenter (default {RUNS})")
    parser.add_argument("--program", type=Path, help="a karpenter-parity that is built already")
    arguments = parser.parse_args()
    try:
        program = arguments.program or binary(Program.PARITY)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    found = compare(program, parity_worlds(arguments.seeds, arguments.only), arguments.runs)
    sys.stdout.write(table(found) + "\n")
    return int(any(one.problems for one in found))


if __name__ == "__main__":
    sys.exit(main())
