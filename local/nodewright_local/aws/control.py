"""The control API under `/_nodewright/`: what a real AWS account has no calls for.

Tests drain capacity and interrupt spot instances with it, the kubelets see instances through it,
and kube-apiserver and pods come to it where EKS has endpoints of its own.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from moto.core.request import Request
from werkzeug.wrappers import Response

from nodewright_local.aws.ec2.capacity import PoolError, read_pool
from nodewright_local.aws.ec2.instances import InstanceRecord, image_family
from nodewright_local.aws.eks import authenticate, credentials
from nodewright_local.aws.events import make_event, publish
from nodewright_local.aws.world import World

INTERRUPTION_NOTICE_SECONDS = 120.0


class ControlError(Exception):
    """A control request that can not be carried out."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Route = Callable[[World, Request], Any]


def respond(world: World, request: Request) -> Response:
    """Answer one control request with JSON; errors are `{"error": …}`."""
    name = request.path.removeprefix("/_nodewright/").rstrip("/")
    route = _ROUTES.get((request.method, name))
    try:
        if route is None:
            raise ControlError(404, f"there is no {request.method} /_nodewright/{name}")
        return _json(200, route(world, request))
    except ControlError as error:
        return _json(error.status, {"error": str(error)})


def _json(status: int, document: Any) -> Response:
    return Response(json.dumps(document), status=status, content_type="application/json")


def _body(request: Request) -> Mapping[str, Any]:
    try:
        document = json.loads(request.get_data() or b"{}")
    except ValueError as error:
        raise ControlError(400, f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ControlError(400, "the body must be a JSON object")
    return document


def _health(world: World, _request: Request) -> Any:
    return {
        "status": "ok",
        "account_id": world.settings.account_id,
        "region": world.settings.region,
    }


def _show_ice(world: World, _request: Request) -> Any:
    with world.lock:
        pools = world.capacity.pools()
    return {
        "pools": [
            {
                "instance_type": pool.instance_type,
                "zone": pool.zone,
                "capacity_type": pool.capacity_type,
                "remaining": pool.remaining,
                "error": pool.error,
            }
            for pool in pools
        ]
    }


def _put_ice(world: World, request: Request) -> Any:
    try:
        pools = [read_pool(document) for document in _body(request).get("pools", ())]
    except PoolError as error:
        raise ControlError(400, str(error)) from error
    with world.lock:
        world.capacity.replace(pools)
    return _show_ice(world, request)


def _record(world: World, document: Mapping[str, Any]) -> InstanceRecord:
    instance_id = str(document.get("instance_id"))
    record = world.instances.find(instance_id)
    if record is None:
        raise ControlError(404, f"there is no instance {instance_id}")
    return record


def _interrupt(world: World, request: Request) -> Any:
    document = _body(request)
    with world.lock:
        record = _record(world, document)
        if record.spec.capacity_type != "spot":
            raise ControlError(409, f"{record.instance_id} is not a spot instance")
        seconds = float(document.get("seconds", INTERRUPTION_NOTICE_SECONDS))
        world.instances.interrupt(
            record, seconds=seconds, rebalance=bool(document.get("rebalance", True))
        )
    return {"instance_id": record.instance_id, "terminates_in_seconds": seconds}


def _set_status(world: World, request: Request) -> Any:
    """Make DescribeInstanceStatus report a failed check or a scheduled event."""
    document = _body(request)
    with world.lock:
        record = _record(world, document)
        health = record.health
        health.system = str(document.get("system", "ok"))
        health.instance = str(document.get("instance", "ok"))
        since = document.get("impaired_since")
        health.impaired_since = datetime.fromisoformat(since) if since else datetime.now(UTC)
        health.events = tuple(
            {
                "Code": code,
                "Description": f"scheduled {code}",
                "InstanceEventId": f"instance-event-{index:017x}",
                "NotBefore": datetime.now(UTC),
            }
            for index, code in enumerate(document.get("events", ()))
        )
    return {"instance_id": record.instance_id, "system": health.system, "instance": health.instance}


def _send_event(world: World, request: Request) -> Any:
    """Deliver an event of any AWS service (`aws.health`, say) to the rules of the default bus."""
    document = _body(request)
    missing = [key for key in ("source", "detail_type", "detail") if key not in document]
    if missing:
        raise ControlError(400, f"the event lacks {', '.join(missing)}")
    event = make_event(
        str(document.get("region", world.settings.region)),
        str(document["source"]),
        str(document["detail_type"]),
        list(document.get("resources", ())),
        dict(document["detail"]),
    )
    with world.lock:
        return {"id": event["id"], "delivered": publish(event)}


def _instances(world: World, _request: Request) -> Any:
    with world.lock:
        return [show(record) for record in world.instances.all()]


def show(record: InstanceRecord) -> dict[str, Any]:
    """One instance as the control API shows it."""
    spec, origin = record.spec, record.origin
    family, variant = image_family(record)
    profile = spec.profile
    return {
        "instance_id": record.instance_id,
        "instance_type": spec.instance_type,
        "zone": spec.zone,
        "region": spec.region,
        "state": record.state,
        "capacity_type": spec.capacity_type,
        "price_usd_per_hour": origin.price,
        "image_id": spec.image["ImageId"],
        "image_name": spec.image["Name"],
        "image_family": family,
        "image_variant": variant,
        "architecture": spec.image["Architecture"],
        "user_data_base64": spec.user_data,
        "instance_profile_arn": profile.arn if profile else None,
        "role_arn": profile.roles[0].arn if profile and profile.roles else None,
        "private_dns_name": record.private_dns_name,
        "private_ip": record.private_ip,
        "subnet_id": spec.subnet.id,
        "launch_time": record.launched_at.isoformat(),
        "tags": record.tags,
        "fleet_id": origin.fleet_id,
        "considered_instance_types": origin.considered_types,
        "launched_by": origin.launched_by,
    }


def _calls(world: World, request: Request) -> Any:
    return world.recorder.calls(
        action=request.args.get("action"), service=request.args.get("service")
    )


def _forget_calls(world: World, _request: Request) -> Any:
    world.recorder.clear()
    return {}


def _authenticate(world: World, request: Request) -> Any:
    with world.lock:
        return authenticate.review(world, _body(request), cluster=request.args.get("cluster"))


def _credentials(world: World, request: Request) -> Any:
    token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    try:
        return credentials.issue(world, token, cluster=request.args.get("cluster"))
    except credentials.CredentialsError as error:
        raise ControlError(error.status, str(error)) from error


_ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "health"): _health,
    ("GET", "ice"): _show_ice,
    ("PUT", "ice"): _put_ice,
    ("POST", "spot-interruption"): _interrupt,
    ("POST", "instance-status"): _set_status,
    ("POST", "events"): _send_event,
    ("GET", "instances"): _instances,
    ("GET", "calls"): _calls,
    ("DELETE", "calls"): _forget_calls,
    ("POST", "authenticate"): _authenticate,
    ("GET", "pod-identity/credentials"): _credentials,
}
