"""What has no place in the other version: written down beside the object, and put back from there.

A conversion is lossy where one version lacks a field. So after converting, the result is converted
back; where that differs from the original, the difference is noted in an annotation: the path, the
value that was there (`kept`) and the value that converting back gives (`instead`). On the way back
a note is honoured only if converting still gives that same value; who edited the field in the
meantime wins. Objects in a list are compared as wholes, so a note never lands on another entry.

Upstream kept a handful of named annotations for a handful of fields; those are read and written by
`conversion`, and this is for everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

import msgspec

Json = dict[str, Any]
Path = tuple[str | int, ...]

_ABSENT: Final = object()
_KEPT: Final = "kept"
_INSTEAD: Final = "instead"


def differences(natural: Any, original: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, natural value, original value) wherever the two differ; a missing one is absent."""
    if natural is original or (type(natural) is type(original) and natural == original):
        return
    if isinstance(natural, Mapping) and isinstance(original, Mapping):
        for key in sorted({*natural, *original}):
            yield from differences(
                natural.get(key, _ABSENT), original.get(key, _ABSENT), (*path, key)
            )
    elif isinstance(natural, list) and isinstance(original, list) and len(natural) == len(original):
        for index, (mine, theirs) in enumerate(zip(natural, original, strict=True)):
            if mine != theirs:
                yield (*path, index), mine, theirs
    else:
        yield path, natural, original


def note(natural: Json, original: Json) -> str:
    """Return the annotation that turns `natural` into `original`, or an empty string."""
    notes = {
        _pointer(path): {
            **({} if now is _ABSENT else {_INSTEAD: now}),
            **({} if then is _ABSENT else {_KEPT: then}),
        }
        for path, now, then in differences(natural, original)
    }
    return msgspec.json.encode(notes, order="sorted").decode() if notes else ""


def restore(body: Json, text: str) -> None:
    """Apply the notes to `body`, in place; a note whose field was changed since is passed over.

    Text that is no such annotation is ignored: a person's slip must not make an object unreadable.
    """
    try:
        notes = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        return
    for pointer, entry in notes.items():
        _restore_one(body, _parse(pointer), entry)


def _restore_one(body: Json, path: list[str], entry: Mapping[str, Any]) -> None:
    kept = entry.get(_KEPT, _ABSENT)
    holder: Any = body
    for step in path[:-1]:
        holder = _child(holder, step)
    if not path or _child(holder, path[-1]) != entry.get(_INSTEAD, _ABSENT):
        return
    if isinstance(holder, list):
        if kept is not _ABSENT:
            holder[int(path[-1])] = kept
    elif isinstance(holder, MutableMapping):
        if kept is _ABSENT:
            holder.pop(path[-1], None)
        else:
            holder[path[-1]] = kept


def _child(holder: Any, step: str) -> Any:
    if isinstance(holder, Mapping):
        return holder.get(step, _ABSENT)
    if isinstance(holder, list) and step.isdecimal() and int(step) < len(holder):
        return holder[int(step)]
    return _ABSENT


def _pointer(path: Path) -> str:
    """Write a path as RFC 6901 does: label keys contain slashes."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _parse(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
