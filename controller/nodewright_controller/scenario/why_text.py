"""An explanation as text: the line, the tree, or plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.scenario.why import Fitting, PodExplanation, PoolAnswer

_INDENT: Final = 8
_SHOWN: Final = 5


def as_tree(found: PodExplanation) -> Iterator[str]:
    """Yield the lines of the tree; the first says verdict and time."""
    code = f"  [{found.code}]" if found.code else ""
    yield f"{found.verdict} · checked {format_instant(found.checked)}{code}"
    for position, need in enumerate(found.needs):
        yield f"{'needs' if position == 0 else '':<{_INDENT}}{need}"
    for name, fitting in (("nodes", found.nodes), ("coming", found.coming)):
        if fitting is not None:
            yield f"{name:<{_INDENT}}{_fitting(fitting)}"
    if found.pools:
        yield from _pools(found.pools)
    for position, fix in enumerate(found.fixes):
        yield f"{'fixes' if position == 0 else '':<{_INDENT}}{fix} (proven)"
    if found.following:
        yield f"{'next':<{_INDENT}}{found.following}"
    if not found.needs:
        yield found.line


def _fitting(fitting: Fitting) -> str:
    lacking = " · ".join(f"{what} {count}" for what, count in fitting.lacking.items())
    nearest = f" ({fitting.nearest})" if fitting.nearest else ""
    # A node that has room and yet did not get the pod is closed to it by other pods.
    beside = f"; {fitting.fit} closed by the pods on them" if fitting.fit else ""
    return f"0 of {fitting.total} fit   {lacking}{nearest}{beside}".rstrip()


def _pools(pools: tuple[PoolAnswer, ...]) -> Iterator[str]:
    told = [pool for pool in pools if pool.meant or len(pool.misses) < 2] or list(pools)
    folded = [pool for pool in pools if pool not in told]
    if any(pool.misses for pool in pools):
        yield f"{'pools':<{_INDENT}}0 of {len(pools)} can build one"
    else:
        yield f"{'pools':<{_INDENT}}not asked: the pod itself has to wait"
        return
    width = max(len(pool.name) for pool in told) + 2
    for pool in told:
        number = len(pool.misses)
        count = "1 miss" if number == 1 else f"{number} misses"
        misses = " ".join(f"✗ {text}" for text in pool.misses)
        yield f"  {pool.name:<{width}}{count:<10}{misses}"
    if folded:
        names = ", ".join(pool.name for pool in folded[:_SHOWN])
        more = f", +{len(folded) - _SHOWN}" if len(folded) > _SHOWN else ""
        yield f"  +{len(folded)} not meant for it ({names}{more})"


def as_values(found: PodExplanation) -> dict[str, Any]:
    """Return the explanation as JSON values."""
    return {**asdict(found), "checked": format_instant(found.checked)}
