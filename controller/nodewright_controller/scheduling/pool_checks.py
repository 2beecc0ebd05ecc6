"""Every check of one pool for one class of pods, each with the changes that might lift it.

Checks run one by one on tables that the solver filled, and none hides another: what is too large
for every type is still compared with the limits. Upstream tells the first error only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from nodewright_controller.api.labels import CAPACITY_TYPE, RESERVED, ZONE
from nodewright_controller.constraints.taints import format_taint, untolerated
from nodewright_controller.kernel.resources import human_amount, rounded_up
from nodewright_controller.scheduling.checks import values_text
from nodewright_controller.scheduling.classes import barred_types
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.edits import NODES, Edit
from nodewright_controller.scheduling.guard import Miss
from nodewright_controller.scheduling.label_checks import LabelChecks
from nodewright_controller.scheduling.place_checks import PlaceChecks
from nodewright_controller.scheduling.pod_edits import DropRule, SoftenSpread, Tolerate
from nodewright_controller.scheduling.pool_edits import AllowValues, LowerMinValues, RaiseLimit
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.size_checks import SizeChecks
from nodewright_controller.scheduling.states import State

_RAISES: Final = (1, 2, 4, 8, 32, 256)
"""Multiples of what is lacking that are tried as a raise of a limit."""
_TOGETHER = "all that it asks for at once"


class PoolChecks(LabelChecks, SizeChecks, PlaceChecks):
    """All checks of one pool for one class of pods."""

    def only_together(self) -> Refusal:
        """Return the refusal of a pool that passes every check by itself."""
        keys = sorted({key for one in self._class.shape.required for key in one.merged})
        edits: list[Edit] = [DropRule(key) for key in keys]
        edits += [
            SoftenSpread(rule.tally.key, is_default=rule.is_default)
            for rule in self._level.shape_level.level.spreads
        ]
        return self._refuse(Reason.NO_TYPE, *dict.fromkeys(edits), what=_TOGETHER)

    def failures(self) -> Iterator[Refusal]:
        """Yield every check that fails."""
        pool = self._pool
        if pool.unready:
            yield self._refuse(Reason.NOT_READY, detail=pool.unready)
            return
        if not self._index.types or pool.base is None:
            yield self._without_image(lambda _: True) or self._refuse(Reason.NO_TYPES)
            return
        for taint in untolerated(self._level.shape_level.level.tolerations, pool.taints):
            edit = Tolerate(taint.key, taint.value, taint.effect)
            yield self._refuse(Reason.TAINT, edit, taint=format_taint(taint))
        state, label_failures = self._labels(pool.base)
        yield from label_failures
        yield from self._volumes(state)
        yield from self._ports()
        types = self._labelled_types(state)
        fitting = yield from self._resources(types)
        yield from self._missed(fitting or types)
        offered = yield from self._offerings(state, fitting or types)
        yield from self._limits(fitting, types)
        if offered:
            yield from self._min_values(state, fitting or types)
        yield from self._topology(state)

    # What can be bought.

    def _missed(self, types: int) -> Iterator[Refusal]:
        """Yield why types that would do are not bought again for this pod just now."""
        if types & ~barred_types(self._class, self._pool):
            return
        for bar in self._class.bars:
            if bar.node_pool != self._pool.name:
                continue
            times = "once" if bar.times == 1 else f"{bar.times} times"
            if bar.miss in (Miss.DIED, Miss.UNSOLD):
                yield self._refuse(Reason.NEVER_JOINED, times=times)
                continue
            what = bar.instance_type or "a node"
            yield self._refuse(Reason.NOT_TAKEN, what=what, times=times, detail=bar.detail)

    def _offerings(self, state: State, fitting: int) -> Generator[Refusal, None, bool]:
        """Yield why nothing that fits can be bought; return whether something can."""
        kinds = self._index.allowed_kinds(state.requirements)
        if self._index.offered(kinds) & fitting:
            if self._reserved_only(kinds, fitting):
                yield self._refuse(Reason.RESERVED_ONLY, *self._other_ways(fitting))
                return False
            return True
        listed_types = 0
        for position, kind in enumerate(self._index.kinds):
            if kinds >> position & 1:
                listed_types |= kind.listed
        if listed_types & fitting:
            yield self._refuse(Reason.OUT_OF_STOCK, *self._other_ways(fitting))
            return False
        what = " in ".join(
            values_text(state.requirements.of(key))
            for key in (CAPACITY_TYPE, ZONE)
            if key in state.requirements
        )
        yield self._refuse(Reason.NO_OFFERING, *self._other_ways(fitting), what=what or "anything")
        return False

    def _reserved_only(self, kinds: int, fitting: int) -> bool:
        """Whether only reservations would do, all of which are full."""
        for position, kind in enumerate(self._index.kinds):
            if not kinds >> position & 1 or not kind.available & fitting:
                continue
            if kind.requirements.of(CAPACITY_TYPE).values != frozenset((RESERVED,)):
                return False
            credit = self._compiled.problem.options.reservation_credits
            if kind.reserved_capacity + credit.get(kind.reservation, 0) > 0:
                return False
        return True

    def _other_ways(self, fitting: int) -> list[Edit]:
        """Return the changes that let the pod have another zone or capacity type."""
        found: list[Edit] = []
        for key in (CAPACITY_TYPE, ZONE):
            sold = self._index.values_of(key, fitting, (1 << len(self._index.kinds)) - 1) or {}
            if self._restricts(key) and self._pool.base is not None:
                allowed = self._pool.base.requirements.of(key)
                found += [
                    AllowValues(self._pool.name, key, (value,))
                    for value in sorted(sold)
                    if not allowed.has(value)
                ]
            if any(key in alternative.merged for alternative in self._class.shape.required):
                found.append(DropRule(key))
        return found

    # Pool.

    def _limits(self, fitting: int, types: int) -> Iterator[Refusal]:
        pool = self._pool
        if pool.limits_left.get(NODES, 1) < 1:
            by = 1 - pool.limits_left[NODES]
            edit = RaiseLimit(pool.name, NODES, by, pool.limits[NODES] + by)
            yield self._refuse(Reason.NODE_LIMIT, edit, limit=str(pool.limits[NODES]))
        for resource, left in sorted(pool.limits_left.items()):
            if resource == NODES:
                continue
            least = pool.smallest_capacity(fitting or types, resource)
            if least > left:
                edits = [
                    RaiseLimit(pool.name, resource, by, pool.limits[resource] + by)
                    for by in self._raises(resource, least - left, fitting or types)
                ]
                yield self._refuse(
                    Reason.LIMIT,
                    *edits,
                    resource=resource,
                    limit=human_amount(resource, pool.limits[resource]),
                    left=human_amount(resource, max(0, left)),
                    asked=human_amount(resource, least),
                )

    def _raises(self, resource: str, lacking: int, types: int) -> Iterator[int]:
        """Yield by how much the limit might be raised, least first.

        Other pods that wait may take what the raise gives, and one that needs another change
        besides may then take a larger type; so more than what is lacking is offered as well.
        """
        most = max(
            lacking, self._pool.largest_capacity(types)[resource] - self._pool.limits_left[resource]
        )
        found = dict.fromkeys(rounded_up(resource, lacking * times) for times in _RAISES)
        yield from found
        if rounded_up(resource, most) not in found:
            yield rounded_up(resource, most)

    def _min_values(self, state: State, fitting: int) -> Iterator[Refusal]:
        left = state.types & fitting
        if not left:
            return
        for key, count in sorted(self._pool.unmet_min_values(state, left).items()):
            wanted = dict.fromkeys((count, 1))  # with another fault lifted, one may be left
            yield self._refuse(
                Reason.MIN_VALUES,
                *(LowerMinValues(self._pool.name, key, to) for to in wanted),
                key=key,
                asked=str(self._pool.min_values[key]),
                found=str(count),
            )
