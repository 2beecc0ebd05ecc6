"""What `pulumi up` runs; the Automation API calls `stacks.program.program` itself."""

import sys
from pathlib import Path

# Pulumi puts this folder on the path, not the one that holds it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from stacks.program import program

program()
