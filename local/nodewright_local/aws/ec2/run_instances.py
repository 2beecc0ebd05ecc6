"""RunInstances, TerminateInstances and their neighbours."""

from collections.abc import Callable
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.describe_instances import show_instance
from nodewright_local.aws.ec2.instances import STATE_CODES, InstanceRecord, Origin
from nodewright_local.aws.ec2.launch_spec import LaunchSpec, overlay, resolve, template_of
from nodewright_local.aws.ec2.launching import hourly_price, launch_one
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World


def run_instances(world: World, call: Call) -> dict[str, Any]:
    """Answer RunInstances: as many as MaxCount, at least MinCount, or none and an error."""
    params = call.params
    template = template_of(call.region, params.get("LaunchTemplate"))
    merged = overlay(template[1].data if template else {}, params)
    spec = resolve(call.region, merged, template=template)
    if params.get("DryRun"):
        raise dry_run()
    known = world.client_tokens.recall("RunInstances", call.region, params)
    if known is not None:
        answer: dict[str, Any] = known
        return answer
    records = _launch(world, spec, int(params["MinCount"]), int(params["MaxCount"]))
    answer = {
        "ReservationId": records[0].reservation_id,
        "OwnerId": moto_access.account(),
        "Groups": [],
        "Instances": [show_instance(record) for record in records],
    }
    world.client_tokens.remember("RunInstances", call.region, params, answer)
    return answer


def _launch(world: World, spec: LaunchSpec, least: int, most: int) -> list[InstanceRecord]:
    price = hourly_price(spec.region, spec.zone, spec.instance_type, spec.capacity_type)
    origin = Origin(launched_by="run-instances", price=price)
    records: list[InstanceRecord] = []
    for _ in range(most):
        try:
            records.append(launch_one(world, spec, origin))
        except AwsError:
            if len(records) >= least:
                break
            for record in records:
                world.instances.terminate(record)
            raise
    return records


def terminate_instances(world: World, call: Call) -> dict[str, Any]:
    """Answer TerminateInstances."""
    records = world.instances.get(call.region, call.params["InstanceIds"])
    for record in records:
        if record.moto.disable_api_termination:
            raise AwsError(
                "OperationNotPermitted",
                f"The instance '{record.instance_id}' may not be terminated. Modify its "
                "'disableApiTermination' instance attribute and try again.",
            )
    return _change(call, records, world.instances.terminate, "TerminatingInstances")


def stop_instances(world: World, call: Call) -> dict[str, Any]:
    """Answer StopInstances."""
    records = world.instances.get(call.region, call.params["InstanceIds"])
    return _change(call, records, world.instances.stop, "StoppingInstances")


def start_instances(world: World, call: Call) -> dict[str, Any]:
    """Answer StartInstances."""
    records = world.instances.get(call.region, call.params["InstanceIds"])
    return _change(call, records, world.instances.start, "StartingInstances")


def reboot_instances(world: World, call: Call) -> dict[str, Any]:
    """Answer RebootInstances; a reboot leaves no trace."""
    world.instances.get(call.region, call.params["InstanceIds"])
    if call.params.get("DryRun"):
        raise dry_run()
    return {}


def _change(
    call: Call,
    records: list[InstanceRecord],
    change: Callable[[InstanceRecord], str],
    key: str,
) -> dict[str, Any]:
    if call.params.get("DryRun"):
        raise dry_run()
    changes = []
    for record in records:
        previous = change(record)
        changes.append(
            {
                "InstanceId": record.instance_id,
                "PreviousState": {"Name": previous, "Code": STATE_CODES[previous]},
                "CurrentState": {"Name": record.state, "Code": STATE_CODES[record.state]},
            }
        )
    return {key: changes}
