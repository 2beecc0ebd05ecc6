"""The hash of an EC2NodeClass: two that would launch different nodes differ in it.

Upstream's number comes from a Go library whose walk order is not worth reproducing, so the hash has
a version of its own: nodes taken over from upstream are stamped anew instead of being replaced.
Upstream: pkg/apis/v1/ec2nodeclass.go (`Hash`).
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.aws.families import family_of
from nodewright_controller.aws.options import AwsOptions

HASH_VERSION: Final = "v6-nodewright1"
# Found out by looking at the instance instead, or not worth a new node.
_IGNORED: Final = (
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
    "amiSelectorTerms",
    "amiFamily",
    "ipPrefixCount",
)
_SETS: Final = ("blockDeviceMappings", "networkInterfaces")


def node_class_hash(node_class: EC2NodeClass, options: AwsOptions) -> str:
    """Return the hash as a decimal number.

    The family counts as resolved, so naming what an alias means anyway changes nothing; order of
    lists does not count; a value that is absent, null, empty, zero or false is one and the same.
    """
    spec: dict[str, Any] = msgspec.to_builtins(node_class.spec)
    counted = {key: value for key, value in spec.items() if key not in _IGNORED}
    for key in _SETS:
        if counted.get(key):
            counted[key] = sorted(map(_text, map(_without_zeros, counted[key])))
    counted["family"] = family_of(node_class).value
    counted["clusterCABundle"] = options.cluster_ca_bundle
    digest = hashlib.sha256(_text(_without_zeros(counted)).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _without_zeros(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_zeros(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, "", 0, [], {})}
    if isinstance(value, list):
        return [_without_zeros(inner) for inner in value]
    return value
