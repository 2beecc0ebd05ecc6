"""Capacity reservations during a round: how many instances of each are left, and who holds them.

A claim holds a slot of every reservation it could still use, and gives back those it can no longer
use as it narrows. In strict mode a pod waits for a later round rather than take on-demand capacity
while a slot is only promised to another claim.
Upstream: reservationmanager.go and the reserved offerings of nodeclaim.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodewright_controller.api.labels import CAPACITY_TYPE, RESERVED
from nodewright_controller.scheduling.states import State
from nodewright_controller.scheduling.type_index import TypeIndex


@dataclass(frozen=True, slots=True)
class Held:
    """The reservations a claim may hold."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Reserved capacity is promised to others: look again in a later round."""


@dataclass(frozen=True, slots=True)
class UsedUp:
    """Only reserved capacity would do, and there is none."""


class Reservations:
    """The slots of every reservation."""

    def __init__(self, *, strict: bool, credits: Mapping[str, int]) -> None:
        self._strict = strict
        self._credits = credits
        self._left: dict[str, int] = {}

    def learn(self, state: State) -> None:
        """Take in the reservations behind a pool's offerings; the smallest count is believed."""
        for kind in state.index.kinds:
            if kind.reservation:
                capacity = kind.reserved_capacity + self._credits.get(kind.reservation, 0)
                known = self._left.get(kind.reservation, capacity)
                self._left[kind.reservation] = min(known, capacity)

    def decide(self, state: State, types: int, held: frozenset[str]) -> Held | Wait | UsedUp:
        """Return what a claim in this state, with these types left, may hold."""
        with_capacity, full, others = False, False, False
        possible = set()
        for position, kind in enumerate(state.index.kinds):
            if not state.kinds >> position & 1 or not kind.available & types:
                continue
            reserved = kind.requirements.of(CAPACITY_TYPE).values == frozenset((RESERVED,))
            if not reserved:
                others = True
            elif kind.reserved_capacity + self._credits.get(kind.reservation, 0) <= 0:
                full = True
            else:
                with_capacity = True
                if kind.reservation in held or self._left.get(kind.reservation, 0) > 0:
                    possible.add(kind.reservation)
        return self._verdict(with_capacity, full, others, frozenset(possible), held)

    def _verdict(
        self,
        with_capacity: bool,
        full: bool,
        others: bool,
        possible: frozenset[str],
        held: frozenset[str],
    ) -> Held | Wait | UsedUp:
        if self._strict and with_capacity and not possible:
            return Wait()
        if full and not with_capacity and not others:
            return Wait() if self._strict else UsedUp()
        if not self._strict and not others and with_capacity and not possible:
            return UsedUp()
        if self._strict and held and not possible:
            return Wait()
        return Held(possible)

    @staticmethod
    def kinds_of(index: TypeIndex, ids: frozenset[str]) -> int:
        """Return the kinds of offerings that buy from these reservations."""
        mask = 0
        for position, kind in enumerate(index.kinds):
            if kind.reservation in ids:
                mask |= 1 << position
        return mask

    def hold(self, before: frozenset[str], after: frozenset[str]) -> None:
        """Give back what a claim no longer holds and take what it newly holds."""
        for reservation in before - after:
            self._left[reservation] += 1
        for reservation in after - before:
            self._left[reservation] -= 1
