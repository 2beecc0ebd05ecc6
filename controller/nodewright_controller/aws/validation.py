"""Whether a node class would launch at all: checks on its own text, then dry runs against EC2.

The dry runs ask for the very calls a launch makes, so missing permissions show on the node class
and not on the first pod that needs a node. Upstream: pkg/controllers/nodeclass/validation.go.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.labels import CAPACITY_TYPE, NODEPOOL, ON_DEMAND
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.ami import image_for
from nodewright_controller.aws.catalog import Catalog
from nodewright_controller.aws.clients import AwsClients, Operation
from nodewright_controller.aws.error_codes import DRY_RUN, AwsError
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.families import family_of
from nodewright_controller.aws.filters import Candidate, Choice
from nodewright_controller.aws.fleet import fleet_request
from nodewright_controller.aws.kubelet import Problem, problem_with
from nodewright_controller.aws.launch_template import LaunchInput, LaunchTemplate, plan_templates
from nodewright_controller.aws.launch_templates import LaunchTemplates
from nodewright_controller.aws.metrics import USER_DATA_BYTES
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.subnets import Subnets
from nodewright_controller.aws.tags import as_list, forbidden_tag, launch_tags
from nodewright_controller.aws.user_data import MAX_BYTES
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.clock import Clock

RESULT_TIME_TO_LIVE: Final = timedelta(minutes=30)
_USUAL_TYPES: Final = ("m5.large", "m6g.large")
_RETRY_CODES: Final = frozenset({"RequestLimitExceeded", "Throttling", "ServiceUnavailable"})
_STAND_IN: Final = "nodeclass-validation"


def problem_in_text(node_class: EC2NodeClass) -> Problem | None:
    """Return the first thing wrong with the spec itself, or None. ValueError: unknown family."""
    kubelet = problem_with(node_class.spec.kubelet, family_of(node_class))
    if kubelet is not None:
        return kubelet
    tag = forbidden_tag(node_class.spec.tags)
    if tag is not None:
        return Problem("TagValidationFailed", f"spec.tags: {tag!r} is set by Karpenter; remove it")
    return None


def user_data_bytes(template: LaunchTemplate) -> int:
    """Return the size of a template's user data before base64."""
    return len(base64.b64decode(template.data.get("UserData", "")))


def user_data_problem(size: int) -> Problem | None:
    """Return what is wrong with the size of user data, or None."""
    if size <= MAX_BYTES:
        return None
    message = f"user data has {size} bytes with what nodes need to join; EC2 takes {MAX_BYTES}"
    return Problem("UserDataSizeLimitExceeded", message)


class Validation:
    """Validates node classes, and remembers the outcome for half an hour."""

    def __init__(
        self,
        clients: AwsClients,
        options: AwsOptions,
        clock: Clock,
        *,
        catalog: Catalog,
        subnets: Subnets,
        templates: LaunchTemplates,
    ) -> None:
        self._clients = clients
        self._options = options
        self._catalog = catalog
        self._subnets = subnets
        self._templates = templates
        self._outcomes: ExpiringMap[str, tuple[Problem | None]] = ExpiringMap(
            clock, RESULT_TIME_TO_LIVE
        )

    async def problem(self, node_class: EC2NodeClass) -> Problem | None:
        """Return what keeps a node class, whose status is resolved, from launching; None if fine.

        Raises:
            AwsError: EC2 asks to come back later, or did not answer.

        """
        key = _key(node_class)
        known = self._outcomes.get(key)
        if known is not None:
            return known[0]
        await self._catalog.ensure_loaded()
        found = await self._examine(node_class)
        self._outcomes.put(key, (found,))
        return found

    async def _examine(self, node_class: EC2NodeClass) -> Problem | None:
        wanted = self._stand_in(node_class)
        if wanted is None:
            return Problem("AMINotFound", "no image boots any instance type in the subnets' zones")
        try:
            templates = plan_templates(wanted)
        except ValueError as error:
            return Problem("InvalidUserData", str(error))
        size = max(map(user_data_bytes, templates))
        USER_DATA_BYTES.labels(node_class.name).set(size)
        found = user_data_problem(size)
        if found is not None or self._options.disable_dry_run:
            return found
        return await self._dry_run(wanted, templates)

    def _stand_in(self, node_class: EC2NodeClass) -> LaunchInput | None:
        chosen = self._usual_type(node_class)
        if chosen is None:
            return None
        offerings = tuple(o for o in chosen.offerings if o.capacity_type == ON_DEMAND)
        claim = NodeClaim(
            metadata=ObjectMeta(
                name=_STAND_IN,
                uid=f"{_STAND_IN}-{node_class.uid}",
                labels={NODEPOOL: _STAND_IN, CAPACITY_TYPE: ON_DEMAND},
            )
        )
        return LaunchInput(
            node_class=node_class,
            node_claim=claim,
            choice=Choice(ON_DEMAND, (Candidate(chosen, offerings),)),
            options=self._options,
        )

    def _usual_type(self, node_class: EC2NodeClass) -> InstanceType | None:
        amis = node_class.status.amis or ()
        bootable = {
            each.name: each
            for each in self._catalog.types_for(node_class)
            if any(o.available and o.capacity_type == ON_DEMAND for o in each.offerings)
            and image_for(each, amis) is not None
        }
        usual = [bootable[name] for name in _USUAL_TYPES if name in bootable]
        return usual[0] if usual else next(iter(bootable.values()), None)

    async def _dry_run(
        self, wanted: LaunchInput, templates: tuple[LaunchTemplate, ...]
    ) -> Problem | None:
        try:
            await self._templates.ensure(templates)
        except AwsError as error:
            return _refusal(error, "CreateLaunchTemplateAuthCheckFailed")
        ids = [subnet.id for subnet in wanted.node_class.status.subnets or ()]
        per_zone = await self._subnets.for_launch(ids)
        request = fleet_request(wanted, templates, per_zone, "")
        del request["ClientToken"]
        ec2 = self._clients.ec2
        found = await self._try(ec2.create_fleet, request, "CreateFleetAuthCheckFailed")
        if found is not None:
            return found
        tags = as_list(launch_tags(wanted.node_class, wanted.node_claim, self._options))
        for subnet in per_zone.values():
            run = run_instances_request(templates[0], subnet.id, tags)
            found = await self._try(ec2.run_instances, run, "RunInstancesAuthCheckFailed")
            if found is None:
                return None
        return found

    async def _try(
        self, operation: Operation, request: Mapping[str, Any], reason: str
    ) -> Problem | None:
        try:
            await self._clients.call(operation, **request, DryRun=True)
        except AwsError as error:
            return None if error.code == DRY_RUN else _refusal(error, reason)
        return None


def run_instances_request(
    template: LaunchTemplate, subnet_id: str, tags: list[dict[str, str]]
) -> dict[str, Any]:
    """Return a RunInstances request for one instance of a template in a subnet.

    A template with network interfaces takes its subnet there, so they are given anew with it.
    """
    interfaces = [{**each, "SubnetId": subnet_id} for each in template.data["NetworkInterfaces"]]
    return {
        "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
        "InstanceType": template.candidates[0].instance_type.name,
        "NetworkInterfaces": interfaces,
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
    }


def _refusal(error: AwsError, reason: str) -> Problem:
    if error.unclear or error.code in _RETRY_CODES:
        raise error
    return Problem(reason, f"{error.code}: {error.message}")


def _key(node_class: EC2NodeClass) -> str:
    status = msgspec.to_builtins(node_class.status)
    status.pop("conditions", None)
    content = [node_class.uid, node_class.annotations, msgspec.to_builtins(node_class.spec), status]
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
