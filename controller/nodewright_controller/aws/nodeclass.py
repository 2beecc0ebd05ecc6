"""The EC2NodeClass reconciler: finds what its selectors mean, and says whether it can launch.

One pass looks at images, subnets, groups, profile and validity in this order and writes the status
once. A step that AWS does not answer leaves its part as it was, so that a silent AWS makes nothing
unready; a refusal becomes a condition. Upstream: pkg/controllers/nodeclass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.conditions import Conditions
from nodewright_controller.api.ec2nodeclass import EC2NodeClass, SubnetStatus
from nodewright_controller.api.meta import is_true
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws import nodeclass_status as status_of
from nodewright_controller.aws.ami import alias_problem
from nodewright_controller.aws.capacity_reservations import nearest_end
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.families import alias_of
from nodewright_controller.aws.nodeclass_hash import HASH_VERSION, node_class_hash
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.aws.validation import Validation, problem_in_text
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import NotFound
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.runtime.reconciler import DONE, Result

log = structlog.get_logger(__name__)

_EMPTY: Final = 60.0
_SETTLED: Final = 300.0
_VALIDATED: Final = 600.0
_WAITING: Final = 5.0


@dataclass(slots=True)
class _Pass:
    """One look at one node class."""

    node_class: EC2NodeClass
    """A copy whose status the steps fill in."""
    conditions: Conditions
    requeue: list[float] = field(default_factory=list)
    failures: list[AwsError] = field(default_factory=list)


class NodeClassReconciler:
    """Keeps one EC2NodeClass's annotations, finalizer and status right."""

    def __init__(
        self,
        provider: EC2Provider,
        kube: Kube,
        recorder: Recorder,
        clock: Clock,
        *,
        node_classes: Store[EC2NodeClass],
        node_claims: Store[NodeClaim],
    ) -> None:
        self._provider = provider
        self._kube = kube
        self._recorder = recorder
        self._clock = clock
        self._node_classes = node_classes
        self._node_claims = node_claims
        self._validation = Validation(
            provider.clients,
            provider.options,
            clock,
            catalog=provider.catalog,
            subnets=provider.subnets,
            templates=provider.templates,
        )

    async def reconcile(self, name: str) -> Result:
        """Look at one node class.

        Raises:
            AwsError: AWS did not answer a step; what the others found is written nevertheless.

        """
        node_class = self._node_classes.get(name)
        if node_class is None:
            return DONE
        if node_class.deleting:
            return await self._finalize(node_class)
        node_class = await self._stamp(node_class)
        copy = msgspec.convert(msgspec.to_builtins(node_class), EC2NodeClass)
        look = _Pass(
            copy,
            Conditions(
                status_of.condition_types(self._provider.options),
                node_class.metadata,
                node_class.status.conditions,
                self._clock.now(),
            ),
        )
        if not self._provider.options.reserved_capacity:
            look.conditions.clear(status_of.CAPACITY_RESERVATIONS)
        await self._fill(look)
        await self._save(node_class, look)
        if look.failures:
            raise look.failures[0]
        return Result(min(look.requeue))

    async def _stamp(self, node_class: EC2NodeClass) -> EC2NodeClass:
        """Add the finalizer and the hash, and stamp claims of an older hash version anew."""
        try:
            hash_ = node_class_hash(node_class, self._provider.options)
        except ValueError:
            return node_class  # an unknown family: the conditions will say so
        wanted = {
            labels.EC2_NODE_CLASS_HASH: hash_,
            labels.EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION,
        }
        known = node_class.annotations
        if known.get(labels.EC2_NODE_CLASS_HASH_VERSION) != HASH_VERSION:
            await self._restamp_claims(node_class.name, hash_)
        body: dict[str, Any] = {}
        if any(known.get(key) != value for key, value in wanted.items()):
            body["annotations"] = wanted
        if labels.EC2_NODE_CLASS_FINALIZER not in node_class.finalizers:
            body["finalizers"] = [*node_class.finalizers, labels.EC2_NODE_CLASS_FINALIZER]
            body["resourceVersion"] = node_class.metadata.resource_version
        if not body:
            return node_class
        written = await self._kube.patch(EC2NodeClass, node_class.name, {"metadata": body})
        self._node_classes.observe(written)
        return written

    async def _restamp_claims(self, node_class: str, hash_: str) -> None:
        for claim in self._claims_of(node_class):
            version = claim.annotations.get(labels.EC2_NODE_CLASS_HASH_VERSION)
            if version in (None, HASH_VERSION):
                continue
            stamps = {labels.EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION}
            if not is_true(claim.status.conditions, "Drifted"):
                stamps[labels.EC2_NODE_CLASS_HASH] = hash_
            body = {"metadata": {"annotations": stamps}}
            self._node_claims.observe(await self._kube.patch(NodeClaim, claim.name, body))

    def _claims_of(self, node_class: str) -> list[NodeClaim]:
        return [
            claim
            for claim in self._node_claims.all()
            if claim.spec.node_class_ref.name == node_class
            and claim.spec.node_class_ref.kind in ("", EC2NodeClass.KIND.kind)
        ]

    async def _fill(self, look: _Pass) -> None:
        steps: tuple[tuple[str, Callable[[_Pass], Awaitable[None]]], ...] = (
            (status_of.AMIS, self._amis),
            (status_of.CAPACITY_RESERVATIONS, self._capacity_reservations),
            (status_of.PLACEMENT_GROUP, self._placement_group),
            (status_of.SUBNETS, self._subnets),
            (status_of.SECURITY_GROUPS, self._security_groups),
            (status_of.PROFILE, self._profile),
            (status_of.VALIDATION, self._validate),
        )
        for condition_type, step in steps:
            try:
                await step(look)
            except AwsError as error:
                look.failures.append(error)
                if not error.unclear:
                    reason = f"{condition_type.removesuffix('Ready')}ResolutionFailed"
                    look.conditions.set_unknown(condition_type, reason, str(error))

    async def _amis(self, look: _Pass) -> None:
        try:
            alias = alias_of(look.node_class)
            found = alias and alias_problem(alias, self._provider.version.current)
            if found:
                look.node_class.status.amis = []
                look.conditions.set_false(status_of.AMIS, found.reason, found.message)
                look.requeue.append(_SETTLED)
                return
            amis = await self._provider.images.select(look.node_class)
        except ValueError as error:
            look.conditions.set_false(status_of.AMIS, "AMINotFound", str(error))
            look.requeue.append(_SETTLED)
            return
        look.node_class.status.amis = list(amis)
        if not amis:
            text = "AMISelector did not match any AMIs"
            look.conditions.set_false(status_of.AMIS, "AMINotFound", text)
            look.requeue.append(_EMPTY)
            return
        look.conditions.set_true(status_of.AMIS)
        look.requeue.append(_SETTLED)

    async def _capacity_reservations(self, look: _Pass) -> None:
        if not self._provider.options.reserved_capacity:
            look.node_class.status.capacity_reservations = None
            return
        terms = look.node_class.spec.capacity_reservation_selector_terms or ()
        found = await self._provider.reservations.select(terms)
        now = self._clock.now()
        look.node_class.status.capacity_reservations = [each.status(now) for each in found]
        look.conditions.set_true(status_of.CAPACITY_RESERVATIONS)
        if terms:
            ends_in = nearest_end(found, now)
            look.requeue.append(min(_EMPTY, ends_in.total_seconds() if ends_in else _EMPTY))

    async def _placement_group(self, look: _Pass) -> None:
        if look.node_class.spec.placement_group_selector is None:
            look.conditions.set_true(status_of.PLACEMENT_GROUP)
            return
        look.conditions.set_false(
            status_of.PLACEMENT_GROUP,
            "PlacementGroupResolutionFailed",
            "placementGroupSelector cannot be used yet; remove it",
        )

    async def _subnets(self, look: _Pass) -> None:
        terms = look.node_class.spec.subnet_selector_terms
        found = await self._provider.subnets.select(terms)
        look.node_class.status.subnets = [
            SubnetStatus(id=each.id, zone=each.zone, zone_id=each.zone_id) for each in found
        ]
        look.requeue.append(_EMPTY)
        if found:
            look.conditions.set_true(status_of.SUBNETS)
        else:
            text = "SubnetSelector did not match any Subnets"
            look.conditions.set_false(status_of.SUBNETS, "SubnetsNotFound", text)

    async def _security_groups(self, look: _Pass) -> None:
        terms = look.node_class.spec.security_group_selector_terms
        found = await self._provider.security_groups.select(terms)
        look.node_class.status.security_groups = list(found)
        if found:
            look.conditions.set_true(status_of.SECURITY_GROUPS)
            look.requeue.append(_SETTLED)
        else:
            text = "SecurityGroupSelector did not match any SecurityGroups"
            type_ = status_of.SECURITY_GROUPS
            look.conditions.set_false(type_, "SecurityGroupsNotFound", text)
            look.requeue.append(_EMPTY)

    async def _profile(self, look: _Pass) -> None:
        name = await self._provider.profiles.ensure(look.node_class)
        look.node_class.status.instance_profile = name
        look.conditions.set_true(status_of.PROFILE)

    async def _validate(self, look: _Pass) -> None:
        type_ = status_of.VALIDATION
        look.requeue.append(_VALIDATED)
        try:
            found = problem_in_text(look.node_class)
        except ValueError as error:
            look.conditions.set_false(type_, "DependenciesNotReady", str(error))
            return
        if found is None:
            if self._wait_for_dependencies(look):
                return
            found = await self._validation.problem(look.node_class)
        if found is None:
            look.conditions.set_true(type_)
        else:
            look.conditions.set_false(type_, found.reason, found.message)

    def _wait_for_dependencies(self, look: _Pass) -> bool:
        wanted = status_of.dependencies(self._provider.options)
        statuses = {type_: look.conditions.status(type_) for type_ in wanted}
        missing = ", ".join(
            f"{type_}={status}" for type_, status in statuses.items() if status != "True"
        )
        if not missing:
            return False
        text = f"awaiting {missing}"
        if "False" in statuses.values():
            look.conditions.set_false(status_of.VALIDATION, "DependenciesNotReady", text)
        else:
            look.conditions.set_unknown(status_of.VALIDATION, "DependenciesNotReady", text)
        return True

    async def _save(self, stored: EC2NodeClass, look: _Pass) -> None:
        before = status_of.status_document(stored.status)
        after = status_of.status_document(look.node_class.status)
        changed = status_of.differs(before, after)
        if not changed and not look.conditions.changed:
            return
        status = {**(after if changed else {}), "conditions": look.conditions.patch()}
        version = stored.metadata.resource_version
        body = {"metadata": {"resourceVersion": version}, "status": status}
        written = await self._kube.patch(EC2NodeClass, stored.name, body, status=True)
        self._node_classes.observe(written)
        log.info(
            "updated nodeclass status",
            nodeclass=stored.name,
            ready=is_true(written.status.conditions, "Ready"),
            subnets=len(written.status.subnets or ()),
            amis=len(written.status.amis or ()),
        )

    async def _finalize(self, node_class: EC2NodeClass) -> Result:
        if labels.EC2_NODE_CLASS_FINALIZER not in node_class.finalizers:
            return DONE
        waiting = sorted(claim.name for claim in self._claims_of(node_class.name))
        if waiting:
            text = f"Waiting on NodeClaim termination for {_some(waiting)}"
            reason = "WaitingOnNodeClaimTermination"
            self._recorder.record(Event(about=node_class, reason=reason, message=text))
            return Result(_WAITING)
        await self._provider.profiles.delete_of_node_class(node_class)
        await self._provider.templates.delete_of_node_class(node_class.name)
        left = [each for each in node_class.finalizers if each != labels.EC2_NODE_CLASS_FINALIZER]
        version = node_class.metadata.resource_version
        body = {"metadata": {"resourceVersion": version, "finalizers": left}}
        try:
            written = await self._kube.patch(EC2NodeClass, node_class.name, body)
        except NotFound:
            return DONE
        self._node_classes.observe(written)
        log.info("deleted nodeclass", nodeclass=node_class.name)
        return DONE


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} other(s)"
