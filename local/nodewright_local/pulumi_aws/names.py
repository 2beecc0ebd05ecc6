"""Physical names for resources whose program gives none.

A name is the logical name, a dash and seven hex digits drawn from the engine's seed, so that the
same deployment computes the same name at preview and at up, and a replacement gets a new one.
"""

import random
import secrets
from dataclasses import dataclass
from enum import Enum

from nodewright_local.pulumi_aws.schema import AutoName
from nodewright_local.pulumi_aws.values import Values

_HEX = "0123456789abcdef"
_DIGITS = 7


class NameRefusedError(ValueError):
    """No acceptable name can be made; the message says why."""


class NamingMode(Enum):
    """What the stack's `pulumi:autonaming` setting asks for."""

    PROPOSE = "take the proposed name, adapted where AWS demands it"
    ENFORCE = "take the proposed name as it is"
    DISABLE = "make up no names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What the engine tells about naming one resource."""

    logical_name: str
    seed: bytes = b""
    """Empty: draw from the system's randomness."""
    proposed: str | None = None
    mode: NamingMode = NamingMode.PROPOSE


def make_name(rule: AutoName, naming: Naming, inputs: Values) -> str:
    """Return a physical name; `NameRefusedError` when the rules leave none."""
    if naming.mode is NamingMode.DISABLE:
        raise NameRefusedError(
            f"{rule.property} is not set and automatic naming is switched off for this stack"
        )
    prefix, suffix = _affixes(rule, inputs)
    if naming.proposed and naming.mode is NamingMode.ENFORCE:
        name = naming.proposed
    elif naming.proposed:
        name = f"{rule.prefix}{naming.proposed}{suffix}"
    else:
        name = f"{prefix or naming.logical_name + '-'}{_digits(naming.seed)}{suffix}"
        if not prefix:
            name = f"{rule.prefix}{name}"
    if len(name) > rule.max_length:
        raise NameRefusedError(
            f"the automatic name {name!r} has {len(name)} characters, AWS allows "
            f"{rule.max_length}: set {rule.property}, or shorten the resource's name"
        )
    return name


def _affixes(rule: AutoName, inputs: Values) -> tuple[str, str]:
    chosen = inputs.get(f"{rule.property}Prefix")
    return (chosen if isinstance(chosen, str) else ""), rule.suffix(inputs)


def _digits(seed: bytes) -> str:
    if not seed:
        return secrets.token_hex(4)[:_DIGITS]
    source = random.Random(seed)
    return "".join(source.choice(_HEX) for _ in range(_DIGITS))
