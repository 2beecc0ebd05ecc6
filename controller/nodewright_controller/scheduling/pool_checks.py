"""Every check of one pool for one class of pods, each with the changes that might lift it.

Checks run one by one on tables that the solver filled, and none hides another: what is too large
for every type is still compared with the limits. Upstream tells the first error only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nodewright_controller.api.labels import CAPACITY_TYPE, RESERVED, ZONE
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.constraints.taints import format_taint, untolerated
from nodewright_controller.kernel.resources import human_amount, rounded_down, rounded_up
from nodewright_controller.scheduling.compiled import (
    ClassLevel,
    Compiled,
    PodClass,
    barred_types,
)
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.domains import DemandReader
from nodewright_controller.scheduling.edits import (
    NODES,
    AddImage,
    AllowValues,
    AskLess,
    DropPoolRule,
    DropRule,
    Edit,
    FreePort,
    LowerMinValues,
    RaiseLimit,
    RenameLabel,
    ReplaceValue,
    SetLabel,
    SoftenAffinity,
    SoftenSpread,
    Tolerate,
)
from nodewright_controller.scheduling.guard import Miss
from nodewright_controller.scheduling.hints import near_label, near_value, setter_of
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.states import Constraint, State
from nodewright_controller.scheduling.thresholds import members
from nodewright_controller.scheduling.topology import SpreadRule

_RAISES: Final = (1, 2, 4, 8, 32, 256)
"""Multiples of what is lacking that are tried as a raise of a limit."""
_TOGETHER = "all that it asks for at once"


class PoolChecks:
    """The checks of one pool for one class of pods."""

    def __init__(
        self,
        compiled: Compiled,
        demands: DemandReader,
        pod_class: PodClass,
        level: ClassLevel,
        pool: CompiledPool,
    ) -> None:
        self._compiled = compiled
        self._demands = demands
        self._class = pod_class
        self._level = level
        self._pool = pool
        self._index = pool.index

    def _refuse(self, reason: Reason, *edits: Edit, **parameters: str) -> Refusal:
        return Refusal(reason=reason, parameters=parameters, node_pool=self._pool.name, edits=edits)

    def only_together(self) -> Refusal:
        """Return the refusal of a pool that passes every check by itself."""
        keys = sorted({key for one in self._class.shape.required for key in one.merged})
        edits: list[Edit] = [DropRule(key) for key in keys]
        edits += [SoftenSpread(rule.tally.key) for rule in self._level.shape_level.level.spreads]
        return self._refuse(Reason.NO_TYPE, *dict.fromkeys(edits), what=_TOGETHER)

    def failures(self) -> Iterator[Refusal]:
        """Yield every check that fails."""
        pool = self._pool
        if pool.unready:
            yield self._refuse(Reason.NOT_READY, detail=pool.unready)
            return
        if not self._index.types or pool.base is None:
            yield self._refuse(Reason.NO_TYPES)
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

    # Labels.

    def _labels(self, base: State) -> tuple[State, list[Refusal]]:
        """Return the state of the alternative with the fewest conflicts, and these."""
        best: tuple[int, int] | None = None
        found: tuple[State, list[Refusal]] = (base, [])
        for position, alternative in enumerate(self._class.shape.required):
            refusals = self._conflicts(base, alternative)
            if best is None or (len(refusals), position) < best:
                best = (len(refusals), position)
                found = (self._narrowed(base, alternative, refusals), refusals)
        return found

    def _narrowed(self, base: State, alternative: Constraint, refusals: list[Refusal]) -> State:
        """Return the state after what can be met of an alternative, whatever is in stock."""
        failing = {refusal.parameters.get("key", "") for refusal in refusals}
        return self._after(base, [r for r in alternative.stated if r.key not in failing])

    def _after(self, state: State, stated: Iterable[Requirement]) -> State:
        constraint = self._compiled.table.of(stated)
        requirements = state.requirements.merged(constraint.merged)
        types = state.types & state.narrowed_types(constraint, requirements)
        kinds = state.kinds & self._index.allowed_kinds(requirements)
        return State(self._index, requirements, types, kinds, {})

    def _conflicts(self, base: State, alternative: Constraint) -> list[Refusal]:
        undefined = base.undefined(alternative)
        refusals = [self._unknown(key, alternative.merged.of(key)) for key in undefined]
        for key, asked in sorted(alternative.merged.items()):
            if key in undefined:
                continue
            known = base.requirements.of(key)
            if base.requirements.intersect_conflicts(_only(asked)):
                refusals.append(self._conflict(key, asked, values_text(known)))
                continue
            one = self._compiled.table.of([r for r in alternative.stated if r.key == key])
            if not base.narrowed_types(one, base.requirements.merged([asked])) or (
                key in self._index.kind_values
                and not self._index.allowed_kinds(base.requirements.merged([asked]))
            ):
                refusals.append(self._conflict(key, asked, self._offered_values(base, key)))
        return refusals

    def _unknown(self, key: str, asked: Requirement) -> Refusal:
        setters = self._compiled.label_setters
        known = {found for keys in setters.values() for found in keys}
        known.update(self._index.labels, self._compiled.nodes.labels)
        meant = near_label(key, known)
        edits: list[Edit] = []
        if meant:
            edits.append(RenameLabel(key, meant, setter_of(meant, setters)))
        if not asked.complement and asked.values:
            edits.append(SetLabel(self._pool.name, key, min(asked.values)))
        edits.append(DropRule(key))
        hint = f" (did you mean {meant}?)" if meant else ""
        return self._refuse(Reason.UNKNOWN_LABEL, *edits, key=key, hint=hint)

    def _conflict(self, key: str, asked: Requirement, found: str) -> Refusal:
        imageless = self._imageless(key, asked)
        if imageless is not None:
            return imageless
        return self._refuse(
            Reason.CONFLICT,
            *self._reconciling(key, asked),
            key=key,
            asked=values_text(asked),
            found=found,
        )

    def _reconciling(self, key: str, asked: Requirement) -> Iterator[Edit]:
        """Yield what might bring pod and pool together on a label."""
        allowed = self._pool.base.requirements.of(key) if self._pool.base else Requirement(key)
        known = allowed.values if not allowed.complement else self._known_values(key)
        for value in sorted(asked.values if not asked.complement else ()):
            meant = near_value(value, known)
            if meant:
                yield ReplaceValue(key, value, meant)
        if self._restricts(key):
            if not asked.complement and asked.values:
                yield AllowValues(self._pool.name, key, tuple(sorted(asked.values)))
            else:
                yield DropPoolRule(self._pool.name, key)
        yield DropRule(key)

    def _restricts(self, key: str) -> bool:
        """Whether a requirement of the pool, rather than a label of its template, is about it."""
        template = self._pool.node_pool.spec.template
        if key in (template.metadata.labels or {}):
            return False
        return any(Requirements.of_entries([e]).get(key) for e in template.spec.requirements)

    def _known_values(self, key: str) -> Iterable[str]:
        every_kind = (1 << len(self._index.kinds)) - 1
        return self._index.values_of(key, self._index.everything, every_kind) or ()

    def _imageless(self, key: str, asked: Requirement) -> Refusal | None:
        """Return the refusal that says that types would do, had they an image."""
        offer = self._pool.offer
        would_do = [
            instance_type.name
            for instance_type in offer.imageless
            if key in instance_type.requirements
            and instance_type.requirements.of(key).intersects(asked)
        ]
        if not would_do:
            return None
        node_class = offer.node_pool.spec.template.spec.node_class_ref.name
        what = values_text(asked)
        edits: list[Edit] = [AddImage(self._pool.name, node_class, what)]
        if self._restricts(key) and not asked.complement and asked.values:
            edits.append(AllowValues(self._pool.name, key, tuple(sorted(asked.values))))
        edits.append(DropRule(key))
        detail = f"node class {node_class} has no image for {what}"
        return self._refuse(Reason.NO_IMAGE, *edits, key=key, detail=detail)

    def _offered_values(self, base: State, key: str) -> str:
        every_kind = (1 << len(self._index.kinds)) - 1
        values = self._index.values_of(key, base.types, every_kind) or {}
        allowed = base.requirements.of(key)
        return listed([value for value in sorted(values) if allowed.has(value)]) or "nothing"

    def _labelled_types(self, state: State) -> int:
        types = self._index.allowing_all(state.requirements.values()) & state.types
        root = self._pool.root
        return types or (root.types if root is not None else self._index.everything)

    # Volumes and ports.

    def _volumes(self, state: State) -> Iterator[Refusal]:
        volumes = self._class.shape.volumes
        for alternative in volumes.alternatives:
            if self._compatible(state, self._compiled.table.of(alternative.values())):
                return
        asked = " or ".join(
            " and ".join(f"{key} {values_text(r)}" for key, r in sorted(alternative.items()))
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

    def _listed_kinds(self, types: int) -> int:
        mask = 0
        for position, kind in enumerate(self._index.kinds):
            if kind.listed & types:
                mask |= 1 << position
        return mask

    def _ports(self) -> Iterator[Refusal]:
        ports = self._class.shape.ports
        if not ports or self._pool.free_of(ports) & self._index.everything:
            return
        for port in ports:
            for daemon in self._compiled.daemons:
                if any(port.conflicts(taken) for taken in daemon.ports):
                    yield self._refuse(
                        Reason.HOST_PORT, FreePort(port), port=str(port), owner=daemon.name
                    )

    # Size.

    def _resources(self, types: int) -> Generator[Refusal, None, int]:
        """Yield what is too large for every type; return the types that hold the pod."""
        fitting = types & self._pool.usable
        refused = False
        for resource, amount in self._class.size.vector:
            enough = self._pool.room[resource].at_least(amount)
            if not enough & types:
                refused = True
                yield self._too_large(resource, amount, types)
            fitting &= enough
        if not fitting and not refused:
            names = [self._compiled.resources[r] for r, _ in self._class.size.vector]
            what = f"enough {listed([n for n in names if n != 'pods'], 'and')} at once"
            yield self._refuse(Reason.NO_TYPE, *self._smaller(types), what=what)
        attached = self._class.shape.volumes.attached
        if fitting and attached and not fitting & self._pool.attaching(attached):
            yield from self._attach_limit(fitting, attached)
        return fitting

    def _too_large(self, resource: int, amount: int, types: int) -> Refusal:
        name = self._compiled.resources[resource]
        most = max(0, self._pool.room[resource].largest(types))
        edits: list[Edit] = list(self._widening(resource, amount))
        edits += self._smaller(types, resource)
        return self._refuse(
            Reason.TOO_LARGE,
            *edits,
            resource=name,
            asked=human_amount(name, amount),
            found=f"{human_amount(name, most)} beside daemons",
        )

    def _widening(self, resource: int, amount: int) -> Iterator[Edit]:
        """Yield the rules of the pool that keep large enough types out."""
        enough = self._pool.room[resource].at_least(amount)
        for number in members(enough):
            requirements = self._index.types[number].requirements
            base = self._pool.base
            if base is None:
                return
            against = base.requirements.intersect_conflicts(requirements)
            if len(against) == 1 and self._restricts(against[0]):
                key = against[0]
                value = requirements.of(key)
                listing = base.requirements.of(key).operator is Operator.IN
                if listing and not value.complement and value.values:
                    yield AllowValues(self._pool.name, key, (min(value.values),))
                else:
                    yield DropPoolRule(self._pool.name, key)
                return

    def _smaller(self, types: int, only: int | None = None) -> list[Edit]:
        """Return the requests that would fit, one resource at a time, beside all others."""
        found: list[Edit] = []
        vector = self._class.size.vector
        for resource, amount in vector:
            name = self._compiled.resources[resource]
            if name == "pods" or only not in (None, resource):
                continue
            others = types & self._pool.usable
            for other, needed in vector:
                if other != resource:
                    others &= self._pool.room[other].at_least(needed)
            most = rounded_down(name, self._pool.room[resource].largest(others or types))
            if 0 < most < amount:
                found.append(AskLess(name, most))
        return found

    def _attach_limit(
        self, fitting: int, attached: Mapping[str, frozenset[str]]
    ) -> Iterator[Refusal]:
        for driver, volumes in sorted(attached.items()):
            limits = [
                self._index.types[number].volume_limits.get(driver, len(volumes))
                for number in members(fitting)
            ]
            if max(limits, default=0) < len(volumes):
                yield self._refuse(
                    Reason.ATTACH_LIMIT,
                    count=str(len(volumes)),
                    driver=driver,
                    limit=str(max(limits, default=0)),
                )

    def _missed(self, types: int) -> Iterator[Refusal]:
        """Yield why types that would do are not bought again for this pod just now."""
        if types & ~barred_types(self._class, self._pool):
            return
        for bar in self._class.bars:
            if bar.node_pool != self._pool.name:
                continue
            times = "once" if bar.times == 1 else f"{bar.times} times"
            if bar.miss in (Miss.DIED, Miss.UNSOLD):
                yield self._refuse(Reason.NEVER_JOINED, pool=bar.node_pool, times=times)
                continue
            what = bar.instance_type or f"a node of pool {bar.node_pool}"
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
        edits.append(SoftenSpread(key))
        if any(key in alternative.merged for alternative in self._class.shape.required):
            edits.append(DropRule(key))
        yield self._refuse(
            Reason.SPREAD,
            *edits,
            key=key,
            allowed=listed(sorted(allowed)) or "no domain",
            counts=counts or "no domain",
            skew=str(spread.max_skew),
        )

    def _values(self, state: State, key: str) -> frozenset[str]:
        """Return the domains in which nodes are sold to the pod, in stock or not."""
        in_kinds = self._index.kind_values.get(key)
        if in_kinds is None:
            return frozenset(state.values(key) or ())
        listed_kinds = state.kinds & self._listed_kinds(state.types)
        return frozenset(value for value, kinds in in_kinds.items() if kinds & listed_kinds)


def _only(requirement: Requirement) -> Requirements:
    return Requirements([requirement])


def values_text(requirement: Requirement) -> str:
    """Return the values of a requirement for a person: `a, b`, `not c`, `4 or more`."""
    if requirement.gte is not None or requirement.lte is not None:
        low = f"at least {requirement.gte}" if requirement.gte is not None else ""
        high = f"at most {requirement.lte}" if requirement.lte is not None else ""
        return " and ".join(part for part in (low, high) if part)
    if requirement.complement:
        return f"not {listed(sorted(requirement.values))}" if requirement.values else "any value"
    return listed(sorted(requirement.values)) or "no value"


def listed(values: Sequence[str], word: str = "") -> str:
    """Return at most four values, and how many more there are."""
    shown, more = values[:4], len(values) - 4
    text = f" {word} ".join(shown) if word else ", ".join(shown)
    return f"{text}, +{more}" if more > 0 else text
