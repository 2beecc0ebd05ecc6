"""Reads the Kubernetes quantities that a Deployment's settings repeat as plain numbers. Pure."""

import re
from decimal import Decimal

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
}
QUANTITY = r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?"


def parse_quantity(text: str) -> Decimal:
    """Return the amount in base units (cores, bytes); raise `ValueError` for anything else."""
    match = re.fullmatch(QUANTITY, text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity; write it like 500m, 2, 512Mi or 1Gi")
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def millicores(text: str) -> int:
    """Return a cpu quantity in thousandths of a core, rounded up."""
    return _ceiling(parse_quantity(text) * 1000)


def whole_bytes(text: str) -> int:
    """Return a memory quantity in bytes, rounded up."""
    return _ceiling(parse_quantity(text))


def _ceiling(value: Decimal) -> int:
    return int(value.to_integral_value(rounding="ROUND_CEILING"))
