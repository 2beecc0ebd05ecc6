"""Expected claims against those that a round made: every entry needs a claim of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nodewright_controller.kernel.resources import Resources, amount, format_amount
from nodewright_controller.scenario.outcome import ClaimView

_CENT_FRACTION: Final = 1e-9

Check = Callable[[Any, ClaimView, Mapping[str, Any]], str]
"""Returns what differs, or an empty text."""


def unmatched(entries: Sequence[Any], claims: Sequence[ClaimView]) -> Iterator[str]:
    """Yield a sentence for every entry without a claim of its own."""
    wanted: list[tuple[int, Mapping[str, Any]]] = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            yield f"[{position}] is no map of what a claim must be"
            continue
        unknown = sorted(set(entry) - set(_CHECKS) - {"count", "podCount"})
        if unknown:
            yield f"[{position}] has unknown keys: {', '.join(unknown)}"
        wanted.extend([(position, entry)] * _count(entry))
    owner: dict[int, int] = {}
    for number in range(len(wanted)):
        if not _assign(number, wanted, claims, owner, set()):
            position, entry = wanted[number]
            yield f"[{position}] {_nearest(entry, claims, owner)}"


def _count(entry: Mapping[str, Any]) -> int:
    return whole_number(entry.get("count", 1))


def whole_number(value: Any) -> int:
    """Return a count, however it is written: 2, '2' or 2.0.

    Raises:
        ValueError: it is no count.

    """
    if not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = -1.0
        if number >= 0 and number == int(number):
            return int(number)
    raise ValueError(f"{value!r} is no count")


def expected_total(entries: Iterable[Any]) -> int:
    """Return how many claims the entries stand for."""
    return sum(_count(entry) for entry in entries if isinstance(entry, Mapping))


def _assign(
    number: int,
    wanted: Sequence[tuple[int, Mapping[str, Any]]],
    claims: Sequence[ClaimView],
    owner: dict[int, int],
    seen: set[int],
) -> bool:
    """Find a claim for an entry, moving others' entries if that helps (augmenting paths)."""
    for position, claim in enumerate(claims):
        if position in seen or any(problems(wanted[number][1], claim)):
            continue
        seen.add(position)
        taken = owner.get(position)
        if taken is None or _assign(taken, wanted, claims, owner, seen):
            owner[position] = number
            return True
    return False


def _nearest(
    entry: Mapping[str, Any], claims: Sequence[ClaimView], owner: Mapping[int, int]
) -> str:
    best: tuple[int, int, list[str], ClaimView] | None = None
    for position, claim in enumerate(claims):
        found = list(problems(entry, claim))
        rank = (len(found), position)
        if best is None or rank < best[:2]:
            best = (*rank, found, claim)
    if best is None:
        return "has no claim: the round made none"
    _, _, found, claim = best
    if not found:
        return "has no claim of its own: those that fit serve other entries"
    return f"has no claim; nearest is {claim.name}: {'; '.join(found)}"


def problems(entry: Mapping[str, Any], claim: ClaimView) -> Iterator[str]:
    """Yield what of an entry the claim does not meet."""
    for key, value in entry.items():
        check = _CHECKS.get(key)
        if check is not None:
            found = check(value, claim, entry)
            if found:
                yield found
    if "podCount" in entry and len(claim.pods) != whole_number(entry["podCount"]):
        yield f"podCount is {len(claim.pods)}, not {entry['podCount']}"


def bare(pod: str) -> str:
    """Return a pod's name without its namespace."""
    return pod.rpartition("/")[2]


def missing_pods(wanted: Iterable[Any], have: Iterable[str]) -> list[str]:
    """Return the wanted pods, by name or `namespace/name`, that are not among `have`."""
    keys = set(have)
    names = keys | {bare(key) for key in keys}
    return [str(pod) for pod in wanted if str(pod) not in names]


def pods_differ(wanted: Any, have: Iterable[str]) -> str:
    """Return how two sets of pods differ, or an empty text."""
    listed, found = _listed(wanted), list(have)
    lacking = missing_pods(listed, found)
    names = {str(pod) for pod in listed}
    extra = [pod for pod in found if pod not in names and bare(pod) not in names]
    parts = []
    if lacking:
        parts.append(f"without {', '.join(lacking)}")
    if extra:
        parts.append(f"also {', '.join(bare(pod) for pod in extra)}")
    return " and ".join(parts)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(attribute: str, key: str) -> Check:
    """Check a text; a list names what it may be."""

    def check(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
        have = getattr(claim, attribute)
        allowed = [str(each) for each in _listed(value)]
        return "" if have in allowed else f"{key} is {have}, not {' or '.join(allowed)}"

    return check


def _all_types(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    have, wanted = set(claim.instance_types), {str(each) for each in _listed(value)}
    return "" if have == wanted else f"instanceTypes: {', '.join(sorted(have))}"


def _offerings(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    wanted = {tuple(str(part) for part in row) for row in value}
    differing = claim.offered ^ wanted
    shown = ", ".join("/".join(row) for row in sorted(differing))
    return f"offerings: {shown} in one of the two only" if differing else ""


def _labels(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    wrong = [
        f"{key} is {claim.labels.get(key, 'not set')}, not {wanted}"
        for key, wanted in dict(value).items()
        if claim.labels.get(key) != (None if wanted is None else _label_text(wanted))
    ]
    return f"labels: {', '.join(wrong)}" if wrong else ""


def _label_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pods(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    lacking = missing_pods(_listed(value), claim.pods)
    return f"pods: without {', '.join(lacking)}" if lacking else ""


def _pods_exactly(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    found = pods_differ(value, claim.pods)
    return f"podsExactly: {found}" if found else ""


def _pods_any_of(value: Any, claim: ClaimView, entry: Mapping[str, Any]) -> str:
    names = {str(pod) for pod in _listed(value)}
    others = [pod for pod in claim.pods if pod not in names and bare(pod) not in names]
    if len(others) == len(claim.pods):
        return "podsAnyOf: none of them is on it"
    if others and "podCount" in entry:
        return f"podsAnyOf: also {', '.join(bare(pod) for pod in others)}"
    return ""


def _amounts(attribute: str, key: str) -> Check:
    def check(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
        have: Resources = getattr(claim, attribute)
        wrong = []
        for resource, wanted in dict(value).items():
            found = have.get(resource, 0)
            if found != amount(resource, wanted):
                wrong.append(f"{resource} {format_amount(resource, found)}, not {wanted}")
        return f"{key}: {', '.join(wrong)}" if wrong else ""

    return check


def _price(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    near = abs(claim.usd_per_hour - float(value)) <= _CENT_FRACTION
    return "" if near else f"price is {claim.usd_per_hour:.6g}, not {value}"


def _not_offering(value: Any, claim: ClaimView, _: Mapping[str, Any]) -> str:
    rows = value if value and isinstance(value[0], list) else [value]
    offered = [row for row in rows if tuple(map(str, row)) in claim.offered]
    return (
        f"notOffering: {', '.join('/'.join(row) for row in offered)} is offered" if offered else ""
    )


_CHECKS: Final[Mapping[str, Check]] = {
    "name": _text("name", "name"),
    "nodePool": _text("node_pool", "nodePool"),
    "instanceType": _text("instance_type", "instanceType"),
    "zone": _text("zone", "zone"),
    "capacityType": _text("capacity_type", "capacityType"),
    "labels": _labels,
    "pods": _pods,
    "podsExactly": _pods_exactly,
    "podsAnyOf": _pods_any_of,
    "daemonOverhead": _amounts("daemon_overhead", "daemonOverhead"),
    "allocatable": _amounts("allocatable", "allocatable"),
    "price": _price,
    "notOffering": _not_offering,
    "instanceTypes": _all_types,
    "offerings": _offerings,
}
