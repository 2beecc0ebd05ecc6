"""Explanations as text for a person: the tree under the line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from nodewright_controller.kernel.timing import format_duration, format_instant
from nodewright_controller.scheduling.explanations import (
    Explanation,
    Fitting,
    OfferView,
    PodExplanation,
    PoolAnswer,
    TypeExplanation,
)

_INDENT: Final = 8
_SHOWN: Final = 5


def usd(usd_per_hour: float | None) -> str:
    """Return a price per hour, `$0.0960/h`; of one that nobody knows, that."""
    return "price unknown" if usd_per_hour is None else f"${usd_per_hour:.4f}/h"


def as_tree(found: Explanation) -> Iterator[str]:
    """Yield the lines of the tree; the first says verdict and time."""
    if isinstance(found, PodExplanation):
        yield from _pod_tree(found)
    else:
        yield from _type_tree(found)


def _row(name: str, texts: Iterable[str]) -> Iterator[str]:
    for position, text in enumerate(texts):
        yield f"{name if position == 0 else '':<{_INDENT}}{text}"


def _pod_tree(found: PodExplanation) -> Iterator[str]:
    yield _head(found.verdict, found.code, _age(found), _checked(found))
    yield from _row("needs", found.needs)
    for name, each in (("nodes", found.nodes), ("coming", found.coming)):
        if each is not None:
            yield from _row(name, [_fitting(each)])
    if found.pools:
        yield from _pools(found.pools)
    yield from _row("fixes", [f"{fix} (proven)" for fix in found.fixes])
    yield from _row("node", [found.node] if found.node else ())
    yield from _row("claim", [found.node_claim] if found.node_claim else ())
    yield from _row("next", [found.following] if found.following else ())
    if found.look_by is not None:
        by = format_instant(found.look_by)
        yield from _row("again", [f"by {by} at the latest, sooner when pods or claims change"])


def _head(verdict: str, code: str, age: str, checked: str) -> str:
    return f"{verdict}{age} · {checked}" + (f"  [{code}]" if code else "")


def _age(found: PodExplanation) -> str:
    if found.since is None:
        return ""
    return f" for {format_duration(max(found.as_of - found.since, timedelta()))}"


def _checked(found: PodExplanation) -> str:
    times = f" (in {_count(found.evaluated, 'round')})" if found.evaluated else ""
    return f"checked {format_instant(found.as_of)}{times}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _fitting(found: Fitting) -> str:
    lacking = " · ".join(f"{what} {count}" for what, count in found.lacking.items())
    nearest = f" ({found.nearest})" if found.nearest else ""
    # A node that has room and yet did not get the pod is closed to it by other pods.
    beside = f"; {found.fit} closed by the pods on them" if found.fit else ""
    return f"0 of {found.total} fit   {lacking}{nearest}{beside}".rstrip()


def _pools(pools: tuple[PoolAnswer, ...]) -> Iterator[str]:
    if not any(pool.misses for pool in pools):
        yield from _row("pools", ["not asked: the pod itself has to wait"])
        return
    told = [pool for pool in pools if pool.meant or len(pool.misses) < 2] or list(pools)
    folded = [pool for pool in pools if pool not in told]
    yield from _row("pools", [f"0 of {len(pools)} can build one"])
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


def _type_tree(found: TypeExplanation) -> Iterator[str]:
    where = f"{found.instance_type} {found.capacity_type} in {found.zone}"
    price, decided = usd(found.usd_per_hour), _decided(found)
    yield f"{where} · {price} · {found.verdict} · {decided}  [{found.code}]"
    yield from _row("pool", [found.node_pool])
    yield from _row("asked", found.asked)
    if found.funnel is not None:
        steps = found.funnel
        yield from _row(
            "funnel",
            [
                f"{_count(steps.types, 'type')} → {steps.meet} meeting the requirements → "
                f"{steps.large_enough} large enough → {steps.in_stock} in stock → "
                f"{steps.listed} on the claim"
            ],
        )
    if found.ranking:
        yield from _row("ranking", [_ranked(each) for each in found.ranking])
    if found.least_usd_per_hour is not None and found.most_usd_per_hour is not None:
        low, high = found.least_usd_per_hour, found.most_usd_per_hour
        offers = _count(found.offered, "offer")
        yield from _row("range", [f"${low:.4f} to ${high:.4f} over {offers}"])
    yield from _row(
        "out",
        [
            f"{each.instance_type} {each.capacity_type} in {each.zone}, {usd(each.usd_per_hour)}: "
            f"out of stock, not tried before {_clock(each.until)}"
            for each in found.out_of_stock
        ],
    )
    yield from _row("also", found.also)


def _decided(found: TypeExplanation) -> str:
    at = format_instant(found.as_of)
    if found.replayed:
        return f"worked out {at} from the claim, with the stock and prices of now"
    return f"decided {at}"


def _ranked(offer: OfferView) -> str:
    where = f"{offer.instance_type} {offer.capacity_type} in {offer.zone}"
    mark = "  ←" if offer.chosen else ""
    return f"{offer.rank:>2} {where}, {usd(offer.usd_per_hour)}{mark}"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"
