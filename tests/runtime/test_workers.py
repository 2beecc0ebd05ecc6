"""How many keys are handled at once follows the cores that the process may count on."""

from __future__ import annotations

import pytest
from nodewright_controller.runtime.reconciler import workers


@pytest.mark.parametrize(
    ("millicores", "expected"),
    [(-1, 100), (0, 100), (500, 100), (1000, 100), (30_500, 300), (60_000, 500), (90_000, 500)],
)
def test_concurrency_grows_with_the_cores_between_its_bounds(
    millicores: int, expected: int
) -> None:
    assert workers(millicores, 100, 500) == expected
