"""Golden files: what others consume, kept as text and compared letter by letter.

`NODEWRIGHT_GOLDEN=write` (as `make golden` sets it) rewrites the files; the difference is then
reviewed like code.
"""

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent / "golden"
SWITCH = "NODEWRIGHT_GOLDEN"


def check_text(name: str, actual: str) -> None:
    """Compare text with the golden file `tests/golden/<name>`, or write it when asked to."""
    path = ROOT / name
    if os.environ.get(SWITCH) == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, encoding="utf-8")
        return
    assert path.exists(), f"{path} is missing; run `make golden` and review the new file"
    expected = path.read_text(encoding="utf-8")

    assert expected == actual, f"{name} has changed; if that is meant, run `make golden`"


def check_json(name: str, actual: Any) -> None:
    """Compare plain data with a golden JSON file, keys sorted."""
    check_text(name, json.dumps(actual, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
