"""A folder of YAML as plain documents, and the outcome that its `expected.md` names.

Reads text only; what the documents mean is decided in `loading`. A document that cannot be read is
reported and left out: one broken object never stops the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

INPUT: Final = "input.yaml"
EXPECTED: Final = "expected.md"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_SEPARATOR: Final = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^#+[ \t]*Must happen[ \t]*$.*?^```(?:yaml|yml)[ \t]*$(.*?)^```[ \t]*$",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


class FilesError(Exception):
    """The folder cannot be used; the message names the file and what to do."""


class _Loader(yaml.SafeLoader):
    """Reads YAML as the API server's clients do: an instant stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What the files of a folder say."""

    name: str
    """The folder's name."""
    bodies: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    """One sentence for each document that could not be read."""


@dataclass(slots=True)
class _Found:
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_folder(folder: Path) -> Documents:
    """Read `input.yaml`, or every YAML and JSON file of a folder that has none.

    Raises:
        FilesError: there is no such folder, or nothing to read in it.

    """
    if not folder.is_dir():
        raise FilesError(f"{folder} is no folder; name one with an {INPUT} in it")
    main = folder / INPUT
    files = [main] if main.is_file() else sorted(p for p in folder.iterdir() if _readable(p))
    if not files:
        raise FilesError(f"{folder} has no {INPUT} (and no other YAML file)")
    found = _Found()
    for file in files:
        _read_text(_text(file), file.name, found)
    return Documents(
        name=folder.resolve().name, bodies=tuple(found.bodies), warnings=tuple(found.warnings)
    )


def read_expected(folder: Path) -> Mapping[str, Any]:
    """Return the outcome that a case demands.

    Raises:
        FilesError: there is no `expected.md`, or no readable `yaml` block under "Must happen".

    """
    file = folder / EXPECTED
    if not file.is_file():
        raise FilesError(f"{folder} has no {EXPECTED}, so there is nothing to check")
    block = _BLOCK.search(_text(file))
    if block is None:
        raise FilesError(f'{file} has no ```yaml block under a heading "Must happen"')
    try:
        outcome = yaml.load(block.group(1), _Loader)
    except yaml.YAMLError as error:
        raise FilesError(
            f"{file}: the block under Must happen is no YAML: {_flat(error)}"
        ) from error
    if not isinstance(outcome, dict):
        raise FilesError(f"{file}: the block under Must happen is no map of outcomes")
    return outcome


def _readable(path: Path) -> bool:
    return path.is_file() and path.suffix in _SUFFIXES


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FilesError(f"{file} cannot be read: {error}") from error


def _read_text(text: str, file: str, found: _Found) -> None:
    for position, part in enumerate(_SEPARATOR.split(text), start=1):
        try:
            body = yaml.load(part, _Loader)
        except yaml.YAMLError as error:
            found.warnings.append(f"{file}, document {position}: no YAML: {_flat(error)}")
            continue
        if body is None:
            continue
        for item in _items(body):
            if isinstance(item, dict) and item.get("kind"):
                found.bodies.append(item)
            else:
                found.warnings.append(f"{file}, document {position}: no object with a kind")


def _items(body: Any) -> Iterator[Any]:
    """Yield the objects of a document: its own, or those of a List."""
    is_list = isinstance(body, dict) and str(body.get("kind", "")).endswith("List")
    if is_list and isinstance(body.get("items"), list):
        yield from body["items"]
    else:
        yield body


def _flat(error: Exception) -> str:
    return " ".join(str(error).split())
