"""Turns typed arguments into Kubernetes objects. Pure.

Arguments are snake_case, as Python wants; the API is camelCase with a few names of its own. Maps
whose keys belong to the user pass untouched.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

_NAMES = {
    "kms_key_id": "kmsKeyID",
    "snapshot_id": "snapshotID",
    "owner_id": "ownerID",
    "http_protocol_ipv6": "httpProtocolIPv6",
    "associate_public_ip_address": "associatePublicIPAddress",
}
_VERBATIM = frozenset({"labels", "annotations", "tags", "limits", "kubelet"})


def camel_case(field: str) -> str:
    """Return the API's name of an argument."""
    if field in _NAMES:
        return _NAMES[field]
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


def to_manifest(value: Any) -> Any:
    """Return the value under the API's names; fields that are None are left out."""
    if isinstance(value, pulumi.Output):
        return value
    if isinstance(value, Mapping):
        return {
            camel_case(key): dict(item)
            if key in _VERBATIM and isinstance(item, Mapping)
            else to_manifest(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        return [to_manifest(item) for item in value]
    return value


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `overrides` laid over it; maps merge, everything else is replaced."""
    merged = dict(base)
    for key, value in overrides.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged
