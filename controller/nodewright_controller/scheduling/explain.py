"""Why a pod got no place: every check of every pool, not just the first that fails.

A second, slower pass that runs once per class of equal pods. It asks the same tables as the solver
does, each check by itself; where all checks pass one by one and only together fail, it says so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence

from nodewright_controller.api.labels import CAPACITY_TYPE, ZONE
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.constraints.taints import format_taint, untolerated
from nodewright_controller.kernel.resources import human_amount
from nodewright_controller.scheduling.bins import Bins
from nodewright_controller.scheduling.compiled import ClassLevel, Compiled, PodClass
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.domains import DemandReader
from nodewright_controller.scheduling.pools import NODES, CompiledPool
from nodewright_controller.scheduling.reasons import NOT_MEANT, Reason
from nodewright_controller.scheduling.states import Constraint, State
from nodewright_controller.scheduling.thresholds import members
from nodewright_controller.scheduling.topology import SpreadRule


class Explainer:
    """Explains failures against the tables as the round left them."""

    def __init__(self, compiled: Compiled, bins: Bins, demands: DemandReader) -> None:
        self._compiled = compiled
        self._bins = bins
        self._demands = demands
        self._known: dict[PodClass, tuple[Refusal, ...]] = {}

    def refusals(self, pod_class: PodClass) -> tuple[Refusal, ...]:
        """Return every check that fails, nearest misses first; never empty."""
        found = self._known.get(pod_class)
        if found is None:
            found = self._known[pod_class] = self._explain(pod_class)
        return found

    def _explain(self, pod_class: PodClass) -> tuple[Refusal, ...]:
        if not self._compiled.pools:
            return (Refusal(reason=Reason.NO_POOLS),)
        contradiction = _contradiction(pod_class)
        if contradiction is not None:
            return (contradiction,)
        level = self._compiled.class_level(pod_class, len(pod_class.shape.levels) - 1)
        by_pool = []
        for position, pool in enumerate(self._compiled.pools):
            checks = _PoolChecks(self._compiled, self._demands, pod_class, level, pool)
            refusals = list(checks.failures()) or [checks.refuse(Reason.NO_TYPE, what=_TOGETHER)]
            apart = any(refusal.reason in NOT_MEANT for refusal in refusals)
            by_pool.append((apart, len(refusals), position, refusals))
        by_pool.sort(key=lambda row: row[:3])
        return tuple(refusal for *_, refusals in by_pool for refusal in refusals)


_TOGETHER = "all that it asks for at once"


class _PoolChecks:
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

    def refuse(self, reason: Reason, **parameters: str) -> Refusal:
        """Return a refusal of this pool."""
        return Refusal(reason=reason, parameters=parameters, node_pool=self._pool.name)

    def failures(self) -> Iterator[Refusal]:
        """Yield every check that fails."""
        pool = self._pool
        if pool.unready:
            yield self.refuse(Reason.NOT_READY, detail=pool.unready)
            return
        if not self._index.types or pool.base is None:
            yield self.refuse(Reason.NO_TYPES)
            return
        for taint in untolerated(self._level.shape_level.level.tolerations, pool.taints):
            yield self.refuse(Reason.TAINT, taint=format_taint(taint))
        state, label_failures = self._labels(pool.base)
        yield from label_failures
        yield from self._volumes(state)
        yield from self._ports()
        types = self._labelled_types(state)
        fitting = yield from self._resources(types)
        if fitting:
            yield from self._offerings(state, fitting)
            yield from self._limits(fitting)
            yield from self._min_values(state, fitting)
        yield from self._topology(state)

    # Labels.

    def _labels(self, base: State) -> tuple[State, list[Refusal]]:
        """Return the state of the alternative with the fewest conflicts, and these."""
        best: tuple[int, int] | None = None
        found: tuple[State, list[Refusal]] = (base, [])
        for position, alternative in enumerate(self._class.shape.required):
            refusals = self._conflicts(base, alternative)
            state = base if refusals else self._narrowed(base, alternative)
            if best is None or (len(refusals), position) < best:
                best = (len(refusals), position)
                found = (state, refusals)
        return found

    def _narrowed(self, base: State, alternative: Constraint) -> State:
        """Return the state after an alternative, whatever is on offer or in stock."""
        requirements = base.requirements.merged(alternative.merged)
        types = base.types & base.narrowed_types(alternative, requirements)
        kinds = base.kinds & self._index.allowed_kinds(requirements)
        return State(self._index, requirements, types, kinds, {})

    def _conflicts(self, base: State, alternative: Constraint) -> list[Refusal]:
        undefined = base.undefined(alternative)
        refusals = [self.refuse(Reason.UNKNOWN_LABEL, key=key) for key in undefined]
        for key, asked in sorted(alternative.merged.items()):
            if key in undefined:
                continue
            known = base.requirements.of(key)
            if base.requirements.intersect_conflicts(_only(asked)):
                refusals.append(self._conflict(key, asked, _values_text(known)))
                continue
            one = self._compiled.table.of([r for r in alternative.stated if r.key == key])
            if not base.narrowed_types(one, base.requirements.merged([asked])) or (
                key in self._index.kind_values
                and not self._index.allowed_kinds(base.requirements.merged([asked]))
            ):
                refusals.append(self._conflict(key, asked, self._offered_values(base, key)))
        return refusals

    def _conflict(self, key: str, asked: Requirement, found: str) -> Refusal:
        imageless = self._imageless(key, asked)
        if imageless is not None:
            return imageless
        return self.refuse(Reason.CONFLICT, key=key, asked=_values_text(asked), found=found)

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
        detail = f"node class {node_class} has no image for {_values_text(asked)}"
        return self.refuse(Reason.NO_IMAGE, detail=detail)

    def _offered_values(self, base: State, key: str) -> str:
        every_kind = (1 << len(self._index.kinds)) - 1
        values = self._index.values_of(key, base.types, every_kind) or {}
        allowed = base.requirements.of(key)
        return _listed([value for value in sorted(values) if allowed.has(value)]) or "nothing"

    def _labelled_types(self, state: State) -> int:
        types = self._index.allowing_all(state.requirements.values()) & state.types
        root = self._pool.root
        return types or (root.types if root is not None else self._index.everything)

    # Volumes and ports.

    def _volumes(self, state: State) -> Iterator[Refusal]:
        volumes = self._class.shape.volumes
        for alternative in volumes.alternatives:
            constraint = self._compiled.table.of(alternative.values())
            if state.step(constraint) is not None:
                return
        asked = " or ".join(
            " and ".join(f"{key} {_values_text(r)}" for key, r in sorted(alternative.items()))
            for alternative in volumes.alternatives
        )
        if asked:
            yield self.refuse(Reason.VOLUME_PLACE, claim=volumes.origin, asked=asked)

    def _ports(self) -> Iterator[Refusal]:
        ports = self._class.shape.ports
        if not ports or self._pool.free_of(ports) & self._index.everything:
            return
        for port in ports:
            for daemon in self._compiled.daemons:
                if any(port.conflicts(taken) for taken in daemon.ports):
                    yield self.refuse(Reason.HOST_PORT, port=str(port), owner=daemon.name)

    # Size.

    def _resources(self, types: int) -> Generator[Refusal, None, int]:
        """Yield what is too large for every type; return the types that hold the pod."""
        fitting = types & self._pool.usable
        refused = False
        for resource, amount in self._class.size.vector:
            name = self._compiled.resources[resource]
            enough = self._pool.room[resource].at_least(amount)
            if not enough & types:
                refused = True
                most = self._pool.room[resource].largest(types)
                yield self.refuse(
                    Reason.TOO_LARGE,
                    resource=name,
                    asked=human_amount(name, amount),
                    found=f"{human_amount(name, max(0, most))} beside daemons",
                )
            fitting &= enough
        if not fitting and not refused:
            names = [self._compiled.resources[r] for r, _ in self._class.size.vector]
            what = f"enough {_listed([n for n in names if n != 'pods'], 'and')} at once"
            yield self.refuse(Reason.NO_TYPE, what=what)
        attached = self._class.shape.volumes.attached
        if fitting and attached and not fitting & self._pool.attaching(attached):
            yield from self._attach_limit(fitting, attached)
        return fitting

    def _attach_limit(
        self, fitting: int, attached: Mapping[str, frozenset[str]]
    ) -> Iterator[Refusal]:
        for driver, volumes in sorted(attached.items()):
            limits = [
                self._index.types[number].volume_limits.get(driver, len(volumes))
                for number in members(fitting)
            ]
            if max(limits, default=0) < len(volumes):
                yield self.refuse(
                    Reason.ATTACH_LIMIT,
                    count=str(len(volumes)),
                    driver=driver,
                    limit=str(max(limits, default=0)),
                )

    def _offerings(self, state: State, fitting: int) -> Iterator[Refusal]:
        kinds = self._index.allowed_kinds(state.requirements)
        if self._index.offered(kinds) & fitting:
            return
        listed = 0
        for position, kind in enumerate(self._index.kinds):
            if kinds >> position & 1:
                listed |= kind.listed
        if listed & fitting:
            yield self.refuse(Reason.OUT_OF_STOCK)
            return
        what = " in ".join(
            _values_text(state.requirements.of(key))
            for key in (CAPACITY_TYPE, ZONE)
            if key in state.requirements
        )
        yield self.refuse(Reason.NO_OFFERING, what=what or "anything")

    # Pool.

    def _limits(self, fitting: int) -> Iterator[Refusal]:
        pool = self._pool
        if pool.limits_left.get(NODES, 1) < 1:
            yield self.refuse(Reason.NODE_LIMIT, limit=str(pool.limits[NODES]))
        for resource, left in sorted(pool.limits_left.items()):
            if resource == NODES:
                continue
            least = pool.smallest_capacity(fitting, resource)
            if least > left:
                yield self.refuse(
                    Reason.LIMIT,
                    resource=resource,
                    limit=human_amount(resource, pool.limits[resource]),
                    left=human_amount(resource, max(0, left)),
                    asked=human_amount(resource, least),
                )

    def _min_values(self, state: State, fitting: int) -> Iterator[Refusal]:
        types = state.types & fitting
        if not types:
            return
        for key, count in sorted(self._pool.unmet_min_values(state, types).items()):
            yield self.refuse(
                Reason.MIN_VALUES,
                key=key,
                asked=str(self._pool.min_values[key]),
                found=str(count),
            )

    # Topology.

    def _topology(self, state: State) -> Iterator[Refusal]:
        volumes = self._class.shape.volumes
        for alternative in volumes.alternatives:
            narrowed = state.step(self._compiled.table.of(alternative.values()))
            if narrowed is not None:
                state = narrowed
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
                yield self.refuse(Reason.AFFINITY, key=key, selector=rule.text)
        keys = {rule.tally.key for rule in level.antis if not rule.tally.by_host}
        keys.update(t.key for t in self._class.shape.kept_out if not t.by_host)
        for demand in self._demands.demands(self._class, self._level):
            values = self._values(state, demand.key)
            if demand.key in keys and values and not values - demand.blocked:
                yield self.refuse(Reason.ANTI_AFFINITY, key=demand.key)

    def _spread(self, spread: SpreadRule, state: State) -> Iterator[Refusal]:
        key = spread.tally.key
        reach = self._demands.reach(self._class, self._level, spread)
        allowed = spread.open_domains(reach)
        if allowed & self._values(state, key):
            return
        counts = ", ".join(f"{d} {spread.tally.counts.get(d, 0)}" for d in sorted(reach))
        yield self.refuse(
            Reason.SPREAD,
            key=key,
            allowed=_listed(sorted(allowed)) or "no domain",
            counts=counts or "no domain",
            skew=str(spread.max_skew),
        )

    def _values(self, state: State, key: str) -> frozenset[str]:
        return frozenset(state.values(key) or ())


def _only(requirement: Requirement) -> Requirements:
    return Requirements([requirement])


def _contradiction(pod_class: PodClass) -> Refusal | None:
    """Return the refusal of a pod whose own rules exclude everything, whatever the pool."""
    required = pod_class.shape.required
    if not required:
        return Refusal(reason=Reason.CONTRADICTION, parameters={"key": "node affinity"})
    keys = []
    for alternative in required:
        stated = {r.key for r in alternative.stated if not r.empty}
        empty = sorted(k for k in stated if alternative.merged.of(k).empty)
        if not empty:
            return None
        keys.append(empty[0])
    return Refusal(reason=Reason.CONTRADICTION, parameters={"key": keys[0]})


def _values_text(requirement: Requirement) -> str:
    """Return the values of a requirement for a person: `a, b`, `not c`, `4 or more`."""
    if requirement.gte is not None or requirement.lte is not None:
        low = f"at least {requirement.gte}" if requirement.gte is not None else ""
        high = f"at most {requirement.lte}" if requirement.lte is not None else ""
        return " and ".join(part for part in (low, high) if part)
    if requirement.complement:
        return f"not {_listed(sorted(requirement.values))}" if requirement.values else "any value"
    return _listed(sorted(requirement.values)) or "no value"


def _listed(values: Sequence[str], word: str = "") -> str:
    """Return at most four values, and how many more there are."""
    shown, more = values[:4], len(values) - 4
    text = f" {word} ".join(shown) if word else ", ".join(shown)
    return f"{text}, +{more}" if more > 0 else text
