"""What EKS remembers. Resources are kept in the shape the API shows them."""

from dataclasses import dataclass, field
from typing import Any

from nodewright_local.aws.errors import AwsError

Document = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Cluster:
    """One cluster with everything that hangs below it; documents are as the API shows them."""

    document: Document
    region: str
    creator_arn: str
    access_entries: dict[str, Document] = field(default_factory=dict)
    """By principal ARN."""
    access_policies: dict[str, dict[str, Document]] = field(default_factory=dict)
    """By principal ARN, then by policy ARN."""
    pod_identities: dict[str, Document] = field(default_factory=dict)
    """By association id."""
    addons: dict[str, Document] = field(default_factory=dict)
    nodegroups: dict[str, Document] = field(default_factory=dict)
    fargate_profiles: dict[str, Document] = field(default_factory=dict)
    identity_providers: dict[str, Document] = field(default_factory=dict)
    updates: dict[str, Document] = field(default_factory=dict)
    node_instances: dict[str, list[str]] = field(default_factory=dict)
    """Instance ids by node group."""

    @property
    def name(self) -> str:
        """The cluster's name."""
        return str(self.document["name"])

    @property
    def auth_mode(self) -> str:
        """`CONFIG_MAP`, `API` or `API_AND_CONFIG_MAP`."""
        return str(self.document["accessConfig"]["authenticationMode"])


class EksState:
    """All clusters of the account."""

    def __init__(self) -> None:
        self._clusters: dict[tuple[str, str], Cluster] = {}

    def add(self, cluster: Cluster) -> None:
        """Remember a new cluster."""
        self._clusters[cluster.region, cluster.name] = cluster

    def remove(self, cluster: Cluster) -> None:
        """Forget a cluster."""
        self._clusters.pop((cluster.region, cluster.name), None)

    def clusters(self, region: str | None = None) -> list[Cluster]:
        """Clusters of a region, or all, by name."""
        found = [c for c in self._clusters.values() if region in (None, c.region)]
        return sorted(found, key=lambda cluster: cluster.name)

    def find(self, region: str, name: str) -> Cluster | None:
        """One cluster, None if there is none."""
        return self._clusters.get((region, name))

    def get(self, region: str, name: str) -> Cluster:
        """One cluster; ResourceNotFoundException if there is none."""
        cluster = self.find(region, name)
        if cluster is None:
            raise not_found(f"No cluster found for name: {name}.", clusterName=name)
        return cluster


def not_found(message: str, **members: str) -> AwsError:
    """ResourceNotFoundException."""
    return AwsError("ResourceNotFoundException", message, **members)


def in_use(message: str, **members: str) -> AwsError:
    """ResourceInUseException."""
    return AwsError("ResourceInUseException", message, **members)


def invalid(message: str, **members: str) -> AwsError:
    """InvalidParameterException."""
    return AwsError("InvalidParameterException", message, **members)
