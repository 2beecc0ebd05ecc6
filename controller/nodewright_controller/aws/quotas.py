"""Which of the account's vCPU quotas an instance type counts against.

A quota covers a group of families, in every zone of the region, for one capacity type. So when EC2
says that one is used up, no other type of the group will do either.
Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (the quotas
"All Standard (A, C, D, H, I, M, R, T, Z) …", "All F …", "All G and VT …", "All P …", and so on).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

STANDARD: Final = "standard"
_STANDARD: Final = frozenset("acdhimrtz")
_WHOLE_NAMES: Final[Mapping[str, str]] = {
    "vt": "g",
    "inf": "inf",
    "trn": "trn",
    "dl": "dl",
    "hpc": "hpc",
    "mac": "mac",
}
_LETTERS: Final = re.compile(r"[a-z]+")


@functools.lru_cache(maxsize=4096)
def quota_group(instance_type: str) -> str:
    """Return the group of families that shares a quota with the type, such as `standard` or `g`."""
    found = _LETTERS.match(instance_type)
    letters = found.group(0) if found else instance_type
    if letters in _WHOLE_NAMES:
        return _WHOLE_NAMES[letters]
    return STANDARD if letters[:1] in _STANDARD else letters[:1]
