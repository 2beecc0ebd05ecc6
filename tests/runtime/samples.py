"""What /metrics says at this moment."""

from __future__ import annotations

from nodewright_controller.runtime.metrics import REGISTRY


def sample(name: str, **labels: str) -> float:
    """Return the value of a series; 0 as long as there is none."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def series(name: str) -> list[dict[str, str]]:
    """Return the labels of all series of a name."""
    return [
        one.labels for family in REGISTRY.collect() for one in family.samples if one.name == name
    ]
