"""One attempt to join: from user data to a Node object, with the machine's own identity.

The steps are those of a machine on EKS: decode the user data, take the instance role's keys, turn
them into an EKS token, speak to the endpoint found in the user data under the CA found there,
create the Node, patch its status, register the EBS driver. When to try again is the joiner's decision.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nodewright_local.kubelets.api import (
    ApiAccess,
    ApiClient,
    ApiError,
    ApiUnreachable,
    trust,
)
from nodewright_local.kubelets.aws_api import AWS_ERRORS, AwsApi
from nodewright_local.kubelets.instance import Hardware, Instance
from nodewright_local.kubelets.node_object import first_conditions, node_object, node_status
from nodewright_local.kubelets.userdata.bootstrap import Bootstrap, JoinProblem
from nodewright_local.kubelets.userdata.decode import decode_user_data
from nodewright_local.kubelets.volumes.csi_node import register_driver


class JoinFailed(Exception):
    """This attempt failed for a reason that may pass; a kubelet keeps trying."""

    def __init__(self, problem: JoinProblem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A Node that now exists for the instance."""

    node_name: str
    cluster_name: str
    notes: tuple[str, ...]


async def join(
    instance: Instance, aws: AwsApi, *, kubelet_port: int, now: Callable[[], datetime]
) -> Joined:
    """Make the instance a Node.

    Raises UserDataError if it never can, JoinFailed if it may later.
    """
    bootstrap = decode_user_data(instance.image_family, instance.user_data_base64)
    try:
        hardware = await asyncio.to_thread(aws.hardware, instance)
        zone_id = await asyncio.to_thread(aws.zone_id, instance.zone)
    except AWS_ERRORS as error:
        raise JoinFailed(JoinProblem.NO_CREDENTIALS, f"EC2 does not answer: {error}") from error
    # Before anything is created: a kubelet with impossible reservations does not even start.
    node_status(instance, hardware, bootstrap, kubelet_version="", kubelet_port=kubelet_port)
    token = await _token(instance, aws, bootstrap)
    access = ApiAccess(
        server=bootstrap.api_server_endpoint,
        ssl_context=trust(bootstrap.certificate_authority_pem),
        token=token,
    )
    async with ApiClient(access) as api:
        try:
            version = await api.get("/version")
            created = await _create(api, node_object(instance, bootstrap, zone_id))
            status = node_status(
                instance,
                hardware,
                bootstrap,
                kubelet_version=version["gitVersion"],
                kubelet_port=kubelet_port,
            )
            if created:
                status["conditions"] = first_conditions(now())
            node = await api.patch(f"{_path(instance)}/status", {"status": status})
            await register_driver(api, node, instance, hardware)
        except (ApiError, ApiUnreachable, KeyError) as error:
            raise _explain(error, instance, bootstrap) from error
    return Joined(
        node_name=instance.private_dns_name,
        cluster_name=bootstrap.cluster_name,
        notes=bootstrap.notes + _hardware_notes(instance, hardware),
    )


def _hardware_notes(instance: Instance, hardware: Hardware) -> tuple[str, ...]:
    if hardware.gpus and instance.image_variant != "nvidia":
        return ("the type has GPUs, but the image has no device plugin for them",)
    return ()


async def _token(instance: Instance, aws: AwsApi, bootstrap: Bootstrap) -> str:
    if instance.role_arn is None:
        raise JoinFailed(
            JoinProblem.NO_INSTANCE_ROLE,
            "the instance has no instance profile with a role, so its kubelet has no credentials",
        )
    try:
        credentials = await asyncio.to_thread(
            aws.assume_instance_role, instance.role_arn, instance.instance_id
        )
    except AWS_ERRORS as error:
        raise JoinFailed(
            JoinProblem.NO_CREDENTIALS, f"no credentials for role {instance.role_arn}: {error}"
        ) from error
    return await asyncio.to_thread(aws.eks_token, credentials, bootstrap.cluster_name)


def _path(instance: Instance) -> str:
    return f"/api/v1/nodes/{instance.private_dns_name}"


async def _create(api: ApiClient, node: dict[str, Any]) -> bool:
    """Create the Node; False if it exists already and is this machine's."""
    try:
        await api.create("/api/v1/nodes", node)
    except ApiError as error:
        if error.status != 409:
            raise
    else:
        return True
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    existing = await api.get(path)
    provider_id = existing["spec"].get("providerID", "")
    if provider_id != node["spec"]["providerID"]:
        raise ApiError(409, f"a Node of that name belongs to {provider_id or 'another machine'}")
    await api.patch(
        path,
        {
            "metadata": {
                "labels": node["metadata"]["labels"],
                "annotations": node["metadata"]["annotations"],
            }
        },
    )
    return False


def _explain(
    error: ApiError | ApiUnreachable | KeyError, instance: Instance, bootstrap: Bootstrap
) -> JoinFailed:
    endpoint = bootstrap.api_server_endpoint
    if isinstance(error, KeyError):
        return JoinFailed(
            JoinProblem.ENDPOINT_UNREACHABLE, f"{endpoint} is not a Kubernetes API server"
        )
    if isinstance(error, ApiUnreachable):
        if error.untrusted:
            return JoinFailed(
                JoinProblem.ENDPOINT_NOT_TRUSTED,
                f"{endpoint} shows a certificate that the CA in the user data did not sign",
            )
        return JoinFailed(JoinProblem.ENDPOINT_UNREACHABLE, f"{endpoint} does not answer: {error}")
    if error.status == 401:
        return JoinFailed(
            JoinProblem.NOT_AUTHENTICATED,
            f"role {instance.role_arn} has no access entry in EKS cluster "
            f"{bootstrap.cluster_name!r}, or there is no such cluster; create an access entry of "
            "type EC2_LINUX",
        )
    return JoinFailed(
        JoinProblem.REFUSED_BY_API_SERVER,
        f"the API server refused the node of role {instance.role_arn}: {error}",
    )
