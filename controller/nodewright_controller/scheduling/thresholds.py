"""Which members of a numbered set offer at least so much of a resource, by bisection.

A set is a bit mask in one Python integer; member `i` is bit `i`. Built once per round.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


class Threshold:
    """One amount per member, sorted, with the mask of all members from each amount upward."""

    __slots__ = ("_from", "_values")

    def __init__(self, amounts: Sequence[int]) -> None:
        by_value: dict[int, int] = {}
        for member, value in enumerate(amounts):
            by_value[value] = by_value.get(value, 0) | (1 << member)
        self._values = sorted(by_value)
        masks: list[int] = []
        mask = 0
        for value in reversed(self._values):
            mask |= by_value[value]
            masks.append(mask)
        masks.reverse()
        masks.append(0)
        self._from = masks

    def at_least(self, amount: int) -> int:
        """Return the members that have `amount` or more."""
        return self._from[bisect_left(self._values, amount)]

    def at_most(self, amount: int) -> int:
        """Return the members that have `amount` or less."""
        return self._from[0] & ~self._from[bisect_right(self._values, amount)]

    def largest(self, members: int) -> int:
        """Return the largest amount among the members; 0 if there are none."""
        if self._values and self._from[-2] & members:
            return self._values[-1]  # most sets reach up to the largest member
        low, high = 0, len(self._values)
        while low < high:  # the last position whose mask still meets the members
            middle = (low + high + 1) // 2
            if middle < len(self._values) and self._from[middle] & members:
                low = middle
            else:
                high = middle - 1
        return self._values[low] if self._values and self._from[low] & members else 0

    def smallest(self, members: int) -> int:
        """Return the smallest amount among the members; 0 if there are none."""
        for position, value in enumerate(self._values):
            if self._from[position] & ~self._from[position + 1] & members:
                return value
        return 0


def members(mask: int) -> Iterator[int]:
    """Yield the members of a mask, smallest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
