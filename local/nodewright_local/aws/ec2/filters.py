"""EC2's filters: values are OR-ed, names are AND-ed, `*` and `?` are wildcards."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nodewright_local.aws.errors import AwsError

Filters = Mapping[str, Sequence[str]]


def filters_of(params: Mapping[str, Any]) -> dict[str, list[str]]:
    """Read `Filters` of a request as name to values; raises InvalidParameterValue without a name."""
    filters: dict[str, list[str]] = {}
    for item in params.get("Filters") or ():
        if not item.get("Name"):
            raise AwsError("InvalidParameterValue", "The filter 'null' is invalid")
        filters.setdefault(item["Name"], []).extend(item.get("Values") or [])
    return filters


@functools.lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\\.|\*|\?)", text)
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(part) or re.escape(_plain(part)) for part in parts))


def _plain(part: str) -> str:
    return part[1:] if part.startswith("\\") and len(part) == 2 else part


def value_matches(wanted: str, value: str) -> bool:
    """Compare one filter value with one attribute."""
    if "*" in wanted or "?" in wanted:
        return _pattern(wanted).fullmatch(value) is not None
    return wanted == value


def matches(
    filters: Filters, attributes: Mapping[str, Any], tags: Mapping[str, str] | None = None
) -> bool:
    """Whether an object passes all filters.

    `attributes` maps each filter name to a value, a list of values, or None; a name it does not
    hold (and that is no tag filter) is an InvalidParameterValue, as in EC2.
    """
    return all(
        any(value_matches(wanted, value) for wanted in wanted_values for value in values)
        for name, wanted_values in filters.items()
        for values in (_values(name, attributes, tags or {}),)
    )


def _values(name: str, attributes: Mapping[str, Any], tags: Mapping[str, str]) -> list[str]:
    if name.startswith("tag:"):
        value = tags.get(name.removeprefix("tag:"))
        return [] if value is None else [value]
    if name == "tag-key":
        return list(tags)
    if name == "tag-value":
        return list(tags.values())
    if name not in attributes:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return [_text(value) for value in _as_list(attributes[name])]


def _as_list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple | set | frozenset) else (value,)  # type: ignore[return-value]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
