"""The cluster's Kubernetes version: it decides which images an alias means."""

from __future__ import annotations

import structlog

from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.options import AwsOptions

log = structlog.get_logger(__name__)


class ClusterVersion:
    """The minor version, such as `1.36`, kept up to date while the cluster is upgraded."""

    def __init__(self, clients: AwsClients, options: AwsOptions) -> None:
        self._clients = clients
        self._cluster_name = options.cluster_name
        self.current = options.kubernetes_version

    async def refresh(self) -> None:
        """Ask EKS. Raises AwsError."""
        answer = await self._clients.call(
            self._clients.eks.describe_cluster, name=self._cluster_name
        )
        version = str(answer["cluster"]["version"])
        if version != self.current:
            log.info("cluster version changed", before=self.current, now=version)
            self.current = version
