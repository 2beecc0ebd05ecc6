"""`nodewright local demo`, as `make demo` runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from nodewright_local.demo.walkthrough import CLASS_FILE, POOL_FILE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]


def demo(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from nodewright.cli import main; main()",
            "local",
            "demo",
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )


def test_the_demo_runs_to_its_end_and_leaves_nothing(tmp_path: Path) -> None:
    answer = demo("--dir", str(tmp_path / "demo"))
    text = answer.stdout
    assert answer.returncode == 0, text + answer.stderr
    headings = re.findall(r"^── (\d+)/(\d+)  ", text, re.MULTILINE)
    assert [int(number) for number, _ in headings] == list(range(1, int(headings[0][1]) + 1))
    for shown in (
        CLASS_FILE,
        POOL_FILE,
        "$ kubectl run nginx --image=nginx",
        "$ kubectl logs -n karpenter -l app.kubernetes.io/name=karpenter",
        "$ kubectl get nodes -l app=hello-world",
        "t3a.nano (x86_64, on-demand)",
        "no change",
        "✓ nothing is left",
        "pod created → CreateFleet",
        "at rest",
    ):
        assert shown in text
    left = {path.name for path in (tmp_path / "demo").iterdir()}
    assert left <= {".nodewright-local", "lock", "logs"}
