"""Checks of where a pod may be: its volumes, its spreads, and the pods it is near to or apart from."""

from __future__ import annotations

from collections.abc import Iterator

from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.scheduling.checks import Checks, listed, values_text
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.edits import Edit
from nodewright_controller.scheduling.pod_edits import DropRule, SoftenAffinity, SoftenSpread
from nodewright_controller.scheduling.pool_edits import AllowValues
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.states import Constraint, State
from nodewright_controller.scheduling.topology import SpreadRule


class PlaceChecks(Checks):
    """Volumes and topology."""

    def _volumes(self, state: State) -> Iterator[Refusal]:
        volumes = self._class.shape.volumes
        for alternative in volumes.alternatives:
            if self._compatible(state, self._compiled.table.of(alternative.values())):
                return
        asked = " or ".join(
            " and ".join(_asked(key, r) for key, r in sorted(alternative.items()))
            for alternative in volumes.alternatives
        )
        if asked:
            edits: list[Edit] = [
                AllowValues(self._pool.name, key, tuple(sorted(found.values)))
                for alternative in volumes.alternatives
                for key, found in sorted(alternative.items())
                if not found.complement and self._restricts(key)
            ]
            edits += [
                DropRule(key)
                for alternative in volumes.alternatives
                for key in sorted(alternative)
                if any(key in one.merged for one in self._class.shape.required)
            ]
            yield self._refuse(
                Reason.VOLUME_PLACE, *dict.fromkeys(edits), claim=volumes.origin, asked=asked
            )

    def _compatible(self, state: State, constraint: Constraint) -> bool:
        """Whether labels and offerings allow it, whatever is in stock and however large it is."""
        if state.undefined(constraint) or state.requirements.intersect_conflicts(constraint.merged):
            return False
        requirements = state.requirements.merged(constraint.merged)
        kinds = self._index.allowed_kinds(requirements)
        types = state.narrowed_types(constraint, requirements)
        return bool(types and kinds & self._listed_kinds(types)) or not constraint.stated

    # Topology.

    def _topology(self, state: State) -> Iterator[Refusal]:
        for alternative in self._class.shape.volumes.alternatives:
            if self._compatible(state, self._compiled.table.of(alternative.values())):
                state = self._after(state, alternative.values())
                break
        level = self._level.shape_level.level
        for spread in level.spreads:
            if not spread.tally.by_host:
                yield from self._spread(spread, state)
        for rule in level.affinities:
            key = rule.tally.key
            domains = None if rule.tally.by_host or rule.first else frozenset(rule.tally.counts)
            alone = rule.tally.by_host and not rule.first
            if alone or (domains is not None and not domains & self._values(state, key)):
                edits: list[Edit] = [SoftenAffinity(key)]
                if domains and self._restricts(key):
                    edits.insert(0, AllowValues(self._pool.name, key, tuple(sorted(domains))))
                yield self._refuse(Reason.AFFINITY, *edits, key=key, selector=rule.text)
        yield from self._repelled(state)

    def _repelled(self, state: State) -> Iterator[Refusal]:
        antis = self._level.shape_level.level.antis
        own = {rule.tally.key for rule in antis if not rule.tally.by_host}
        keys = own | {t.key for t in self._class.shape.kept_out if not t.by_host}
        for demand in self._demands.demands(self._class, self._level):
            values = self._values(state, demand.key)
            if demand.key in keys and values and not values - demand.blocked:
                edits = [SoftenAffinity(demand.key, anti=True)] if demand.key in own else []
                yield self._refuse(Reason.ANTI_AFFINITY, *edits, key=demand.key)

    def _spread(self, spread: SpreadRule, state: State) -> Iterator[Refusal]:
        key = spread.tally.key
        reach = self._demands.reach(self._class, self._level, spread)
        allowed = spread.open_domains(reach)
        if allowed & self._values(state, key):
            return
        counts = ", ".join(f"{d} {spread.tally.counts.get(d, 0)}" for d in sorted(reach))
        edits: list[Edit] = []
        if allowed and self._restricts(key):
            edits.append(AllowValues(self._pool.name, key, tuple(sorted(allowed))))
        edits.append(SoftenSpread(key, is_default=spread.is_default))
        if any(key in alternative.merged for alternative in self._class.shape.required):
            edits.append(DropRule(key))
        yield self._refuse(
            Reason.SPREAD,
            *edits,
            key=key,
            allowed=f"{listed(sorted(allowed))} only" if allowed else "no domain",
            counts=counts or "none is known",
            skew=str(spread.max_skew),
        )


def _asked(key: str, found: Requirement) -> str:
    if not found.complement and not found.values:  # two volumes that lie apart
        return f"several values of {key} at once"
    return f"{key} {values_text(found)}"
