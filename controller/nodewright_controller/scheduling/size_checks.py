"""Checks of what a pod takes from a machine: resources, volumes to attach, ports of the host."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Operator
from nodewright_controller.kernel.resources import human_amount, rounded_down
from nodewright_controller.scheduling.checks import Checks, listed
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.edits import Edit
from nodewright_controller.scheduling.pod_edits import AskLess, FreePort
from nodewright_controller.scheduling.pool_edits import AddImage, AllowValues, DropPoolRule
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.thresholds import members

_NAMED: Final = 3
"""How many instance types are named one by one."""


class SizeChecks(Checks):
    """Whether any machine of the pool is large enough."""

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
        imageless = self._without_image(
            lambda found: found.allocatable.get(name, 0) >= amount, human_amount(name, amount), name
        )
        if imageless is not None:
            return imageless
        edits: list[Edit] = list(self._widening(resource, amount))
        edits += self._smaller(types, resource)
        if not self._index.capacity(name).largest(types):
            return self._refuse(Reason.NO_TYPE, *edits, what=name)
        return self._refuse(
            Reason.TOO_LARGE,
            *edits,
            resource=name,
            asked=human_amount(name, amount),
            found=f"{human_amount(name, most)} beside daemons",
        )

    def _without_image(
        self, would_do: Callable[[InstanceType], bool], asked: str = "", resource: str = ""
    ) -> Refusal | None:
        """Return the refusal that says that types of the pool would do, had they an image."""
        base = self._pool.base
        names = [
            found.name
            for found in self._pool.offer.imageless
            if base is not None
            and not base.requirements.intersect_conflicts(found.requirements)
            and would_do(found)
        ]
        if not names:
            return None
        node_class = self._pool.offer.node_pool.spec.template.spec.node_class_ref.name
        what = listed(names[:_NAMED], "or" if len(names) <= _NAMED else "")
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        need = f", which would hold {resource} {asked}" if resource else ""
        return self._refuse(
            Reason.NO_IMAGE,
            AddImage(self._pool.name, node_class, f"{what}{more}"),
            detail=f"node class {node_class} has no image for {what}{more}{need}",
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
