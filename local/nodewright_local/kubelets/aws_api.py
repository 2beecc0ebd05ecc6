"""What machines and kubelets ask of AWS: instances, hardware, credentials, tokens.

Everything here blocks (boto3) except the list of instances; callers use ``asyncio.to_thread``.
"""

import base64
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import httpx2
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from nodewright_local.kubelets.instance import Hardware, Instance, parse_hardware, parse_instance
from nodewright_local.kubelets.volumes.ebs import Ebs, is_pod_volume

AWS_ERRORS = (BotoCoreError, ClientError)
"""What any call here may raise when AWS refuses or does not answer."""

TOKEN_SECONDS = 60
_INSTANCES_PATH = "/_nodewright/instances"
_DEFAULT_VOLUME_GIB = 20
"""Size of the EKS images' own root (AL2, AL2023) and data (Bottlerocket) volumes."""
_POD_VOLUME = {"Bottlerocket": "/dev/xvdb"}
"""The device that holds pods, where it is not the root volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCredentials:
    """Short-lived keys of an assumed role."""

    access_key_id: str
    secret_access_key: str
    session_token: str


class InstanceList:
    """The stand-in's list of all instances, read over one kept connection."""

    def __init__(self, aws_url: str, region: str) -> None:
        self._region = region
        self._http = httpx2.AsyncClient(base_url=aws_url, timeout=5.0, trust_env=False)

    async def read(self) -> list[Instance]:
        """Return every instance; raises httpx2.HTTPError if AWS does not answer properly."""
        response = await self._http.get(_INSTANCES_PATH)
        response.raise_for_status()
        return [parse_instance(item, self._region) for item in response.json()]

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()


class AwsApi:
    """boto3 against the stand-in, with keys of the account's own administrator."""

    def __init__(self, aws_url: str, region: str) -> None:
        self.aws_url = aws_url
        self.region = region
        self._lock = threading.Lock()
        self._types: dict[str, Mapping[str, Any]] = {}
        self._zone_ids: dict[str, str] = {}
        self._clients: dict[str, BaseClient] = {}

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                self._clients[service] = boto3.session.Session().client(
                    service,  # type: ignore[call-overload]  # the name is not a literal here
                    endpoint_url=self.aws_url,
                    region_name=self.region,
                    aws_access_key_id="test",
                    aws_secret_access_key="test",
                    config=Config(
                        connect_timeout=3,
                        read_timeout=10,
                        retries={"total_max_attempts": 1},
                        proxies={},
                    ),
                )
            return self._clients[service]

    def hardware(self, instance: Instance) -> Hardware:
        """Return the figures of the instance's type and the sizes of its own volumes."""
        description = self._describe_type(instance.instance_type)
        details = self._describe_instance(instance.instance_id)
        return parse_hardware(
            description,
            root_volume_gib=self._pod_volume_gib(instance, details),
            efa_interfaces=sum(
                interface.get("InterfaceType", "").startswith("efa")
                for interface in details.get("NetworkInterfaces", [])
            ),
            own_volumes=sum(
                not is_pod_volume(mapping["DeviceName"])
                for mapping in details.get("BlockDeviceMappings", [])
            ),
            own_interfaces=len(details.get("NetworkInterfaces", [])),
        )

    def ebs(self) -> Ebs:
        """Return EC2's volumes, as the driver's controller uses them."""
        return Ebs(self._client("ec2"))

    def _describe_type(self, instance_type: str) -> Mapping[str, Any]:
        if instance_type not in self._types:
            answer = self._client("ec2").describe_instance_types(InstanceTypes=[instance_type])
            self._types[instance_type] = answer["InstanceTypes"][0]
        return self._types[instance_type]

    def _describe_instance(self, instance_id: str) -> Mapping[str, Any]:
        answer = self._client("ec2").describe_instances(InstanceIds=[instance_id])
        details: Mapping[str, Any] = answer["Reservations"][0]["Instances"][0]
        return details

    def _pod_volume_gib(self, instance: Instance, details: Mapping[str, Any]) -> int:
        device = _POD_VOLUME.get(instance.image_family) or details.get("RootDeviceName")
        volumes = [
            mapping["Ebs"]["VolumeId"]
            for mapping in details.get("BlockDeviceMappings", [])
            if mapping.get("DeviceName") == device and "VolumeId" in mapping.get("Ebs", {})
        ]
        if not volumes:
            return _DEFAULT_VOLUME_GIB
        answer = self._client("ec2").describe_volumes(VolumeIds=volumes)
        return int(answer["Volumes"][0]["Size"])

    def zone_id(self, zone: str) -> str | None:
        """Return the zone's account-independent id (``usw2-az1``), None if EC2 knows none."""
        if not self._zone_ids:
            answer = self._client("ec2").describe_availability_zones()
            self._zone_ids = {
                item["ZoneName"]: item["ZoneId"]
                for item in answer["AvailabilityZones"]
                if item.get("ZoneId")
            }
        return self._zone_ids.get(zone)

    def assume_instance_role(self, role_arn: str, instance_id: str) -> RoleCredentials:
        """Return the keys that the machine's metadata service would hand out."""
        answer = self._client("sts").assume_role(RoleArn=role_arn, RoleSessionName=instance_id)
        keys = answer["Credentials"]
        return RoleCredentials(
            access_key_id=keys["AccessKeyId"],
            secret_access_key=keys["SecretAccessKey"],
            session_token=keys["SessionToken"],
        )

    def eks_token(self, credentials: RoleCredentials, cluster_name: str) -> str:
        """Return the bearer token by which an API server of EKS knows an IAM principal."""
        signer = RequestSigner(
            ServiceId("sts"),
            self.region,
            "sts",
            "v4",
            Credentials(
                credentials.access_key_id,
                credentials.secret_access_key,
                credentials.session_token,
            ),
            self._client("sts").meta.events,
        )
        url = signer.generate_presigned_url(
            {
                "method": "GET",
                "url": f"{self.aws_url}/?Action=GetCallerIdentity&Version=2011-06-15",
                "body": {},
                "headers": {"x-k8s-aws-id": cluster_name},
                "context": {},
            },
            region_name=self.region,
            expires_in=TOKEN_SECONDS,
            operation_name="",
        )
        encoded = base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
        return f"k8s-aws-v1.{encoded}"

    def has_pod_identity(self, cluster_name: str, namespace: str, service_account: str) -> bool:
        """Tell whether EKS gives pods of that service account an IAM role."""
        answer = self._client("eks").list_pod_identity_associations(
            clusterName=cluster_name, namespace=namespace, serviceAccount=service_account
        )
        return bool(answer["associations"])
