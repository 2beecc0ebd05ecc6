"""Selector terms as EC2 filters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Filter = dict[str, Any]
ANY_VALUE: Final = "*"


def tag_filters(tags: Mapping[str, str] | None) -> list[Filter]:
    """Return filters that all tags must meet; the value `*` asks for the key alone."""
    return [
        {"Name": "tag-key", "Values": [key]}
        if value == ANY_VALUE
        else {"Name": f"tag:{key}", "Values": [value]}
        for key, value in sorted((tags or {}).items())
    ]
