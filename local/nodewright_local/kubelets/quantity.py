"""Kubernetes quantities as integers: milli-units for CPU, whole units (bytes, pods) for the rest.

Only what a kubelet needs: parse, and print in the form in which a kubelet prints.
"""

import re
from decimal import ROUND_CEILING, Decimal

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?))")

KIB = 2**10
MIB = 2**20
GIB = 2**30


def _decimal(text: str) -> Decimal:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; write for example 500m, 2, 100Mi or 10Gi")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Decimal(number + exponent)
    return Decimal(number) * _SUFFIXES[suffix]


def parse_units(text: str) -> int:
    """Return whole units (bytes for memory), rounded up; ``ValueError`` if it is no quantity."""
    return int(_decimal(text).to_integral_value(rounding=ROUND_CEILING))


def parse_milli(text: str) -> int:
    """Return thousandths (millicores for CPU), rounded up; ``ValueError`` if it is no quantity."""
    return int((_decimal(text) * 1000).to_integral_value(rounding=ROUND_CEILING))


def format_milli(milli: int) -> str:
    """Print millicores as a kubelet does: ``2`` for whole cores, else ``1930m``."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def format_kibibytes(bytes_: int) -> str:
    """Print bytes in ``Ki``, rounded down: a kubelet never reports more than it has."""
    return f"{bytes_ // KIB}Ki"
