"""Checks of what people are shown: errors, events, warnings, validation, budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from nodewright_controller.kernel.timing import format_instant, parse_instant
from nodewright_controller.scenario.matching import bare
from nodewright_controller.scenario.meaning import any_says, mentions
from nodewright_controller.scenario.view import View

_OK: Final = "ok"
_ANY: Final = "any"
_KINDS: Final[Mapping[str, re.Pattern[str]]] = {
    "restricted-tag": re.compile(r"spec\.tags\b"),
    "restricted-label": re.compile(r"label \S+ is restricted|this label is set by"),
    "invalid-schedule": re.compile(r"budgets\[\d+\]\.schedule"),
    "invalid-duration": re.compile(r"is not a duration"),
    "invalid-taint": re.compile(r"[tT]aints?\["),
    "duplicate-taint": re.compile(r"more than one taint"),
    "invalid-requirement": re.compile(r"requirements\[\d+\]"),
    "invalid-kubelet": re.compile(r"KubeletConfiguration|spec\.kubelet"),
    "invalid-alias": re.compile(r"\balias\b"),
}
"""Kinds of problems, and how our sentences show that they are of it."""


def error_must_mention(value: Any, view: View) -> Iterator[str]:
    """The words stand in what is said about the pods that are left."""
    texts = {one.pod: one.text for one in view.last.pending}
    yield from _mentioned(value, texts)


def event_must_mention(value: Any, view: View) -> Iterator[str]:
    """The words stand in the events of the run."""
    texts = {one.pod: one.event for one in view.last.pending}
    launches = [text for each in view.outcome.launches for _, text in each.events]
    yield from _mentioned(value, texts | {text: text for text in launches})


def errors(value: Any, view: View) -> Iterator[str]:
    """These pods are left, each with just this text."""
    yield from _texts(value, {one.pod: one.text for one in view.last.pending})


def events(value: Any, view: View) -> Iterator[str]:
    """These pods are left, each with just this event."""
    yield from _texts(value, {one.pod: one.event for one in view.last.pending})


def _texts(value: Any, have: Mapping[str, str]) -> Iterator[str]:
    by_name = {bare(key): text for key, text in have.items()} | dict(have)
    for pod, text in dict(value).items():
        if by_name.get(str(pod)) != text:
            yield f"{pod}: {by_name.get(str(pod), 'it is not pending')}"


def name(value: Any, view: View) -> Iterator[str]:
    """The scenario has this name."""
    if value != view.outcome.name:
        yield f"{view.outcome.name}, not {value}"


def _mentioned(value: Any, texts: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for pod, words in value.items():
            about = {key: text for key, text in texts.items() if str(pod) in (key, bare(key))}
            yield from (f"{pod}: {found}" for found in _mentioned(words, about))
        return
    words = value if isinstance(value, list) else [value]
    lacking = [str(w) for w in words if not any(mentions(t, str(w)) for t in texts.values())]
    if lacking:
        said = "; ".join(texts.values()) or "nothing was said"
        yield f"{', '.join(lacking)} not in: {said}"


def event(value: Any, view: View) -> Iterator[str]:
    """An event with this meaning was sent."""
    for meaning in value if isinstance(value, list) else [value]:
        spaced = str(meaning).replace("-", " ")
        texts = [f"{reason} {text}" for reason, text in _events(view)]
        plain = re.sub(r"[^a-z]", "", str(meaning).lower())
        reasons = {reason.lower() for reason, _ in _events(view)}
        if plain not in reasons and not any_says(texts, spaced):
            yield f"{meaning}: no such event; there were {', '.join(sorted(reasons)) or 'none'}"


def _events(view: View) -> Iterator[tuple[str, str]]:
    for one in view.last.pending:
        yield "FailedScheduling", one.event
    for claim in view.first.claims:
        yield "Nominated", f"Pod should schedule on: nodeclaim/{claim.name}"
    for node in view.first.nominations:
        yield "Nominated", f"Pod should schedule on: node/{node}"
    for each in view.outcome.launches:
        yield from each.events


def warnings(value: Any, view: View) -> Iterator[str]:
    """Something visible has each of these meanings."""
    outcome = view.outcome
    seen = [*outcome.warnings, *outcome.lint, *_all_validation(view)]
    yield from _visible(value, seen)


def lint(value: Any, view: View) -> Iterator[str]:
    """A hint has each of these meanings."""
    yield from _visible(value, [*view.outcome.lint, *view.outcome.warnings])


def _visible(value: Any, seen: Iterable[str]) -> Iterator[str]:
    texts = list(seen)
    for meaning in value if isinstance(value, list) else [value]:
        if not any_says(texts, str(meaning)):
            yield f"nothing says {str(meaning)!r}; there is: {'; '.join(texts) or 'nothing'}"


def _all_validation(view: View) -> Iterator[str]:
    for name, found in view.outcome.validation.items():
        yield from (f"{name}: {text}" for text in found)


def validation(value: Any, view: View) -> Iterator[str]:
    """Each object is ok, or has a problem of this kind."""
    for name, wanted in dict(value).items():
        outcome = view.outcome
        found = outcome.validation.get(str(name), outcome.by_kind.get(str(name)))
        if found is None:
            yield f"{name} was not validated"
        elif wanted == _OK:
            if found:
                yield f"{name} is not ok: {'; '.join(found)}"
        elif not found:
            yield f"{name} is ok, not {wanted}"
        else:
            for kind in wanted if isinstance(wanted, list) else [wanted]:
                if not any(text == kind or _is_kind(text, str(kind)) for text in found):
                    yield f"{name} is not {kind}: {'; '.join(found)}"


def _is_kind(text: str, kind: str) -> bool:
    pattern = _KINDS.get(kind)
    if pattern is not None:
        return pattern.search(text) is not None
    return any_says([text], kind.replace("-", " "))


def invalid(value: Any, view: View) -> Iterator[str]:
    """Each of these objects is invalid, for a reason that names this."""
    found = view.outcome.invalid()
    for name, wanted in dict(value).items():
        if str(name) not in found:
            yield f"{name} is valid (or was not validated)"
            continue
        for word in wanted if isinstance(wanted, list) else [wanted]:
            if not mentions(found[str(name)], str(word)):
                yield f"{name}: {word} not in: {found[str(name)]}"


def allowed_disruptions(value: Any, view: View) -> Iterator[str]:
    """At each instant each pool lets so many nodes go for each reason."""
    for pool, by_instant in dict(value).items():
        have = view.outcome.allowed.get(str(pool))
        if have is None:
            yield f"{pool}: its budgets were not asked"
            continue
        for instant, wanted in dict(by_instant).items():
            for at in have if instant == _ANY else [_instant(instant)]:
                yield from _counts(f"{pool} at {at}", wanted, have.get(at))


def _instant(text: Any) -> str:
    return format_instant(parse_instant(str(text)))


def _counts(where: str, wanted: Mapping[str, int], have: Mapping[str, int] | None) -> Iterator[str]:
    if have is None:
        yield f"{where}: the budgets were not asked at this instant"
        return
    for reason, count in wanted.items():
        if have.get(reason) != count:
            yield f"{where}: {reason} is {have.get(reason, 'not counted')}, not {count}"
