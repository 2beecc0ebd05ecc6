"""What is registered is also set: a metric that nobody sets would tell a lie for ever."""

from __future__ import annotations

from pathlib import Path

import nodewright_controller
import nodewright_controller.aws.metrics
import nodewright_controller.runtime.metrics
import pytest
from prometheus_client.metrics import MetricWrapperBase

HOME = Path(nodewright_controller.__file__).parent
MODULES = (nodewright_controller.runtime.metrics, nodewright_controller.aws.metrics)
NAMES = [
    name
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, MetricWrapperBase)
]


@pytest.fixture(scope="module")
def sources() -> str:
    own = {Path(module.__file__ or "") for module in MODULES}
    return "\n".join(path.read_text() for path in HOME.rglob("*.py") if path not in own)


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_is_set_somewhere(name: str, sources: str) -> None:
    used = (f"{name}.labels(", f"{name}.set(", f"{name}.inc(", f"{name}.observe(")

    assert any(each in sources for each in used)
