"""kwok's configuration: which nodes it keeps alive and how it plays the pods on them.

Decides kwok's flags; the life of nodes and pods is written in the Stage files under
`kwok_stages/`. Which nodes exist, and their capacity, is the joiner's matter (`kubelets`).
"""

from pathlib import Path
from typing import Final

from nodewright_local.pki import kubeconfig_file
from nodewright_local.state import ClusterState

STAGES: Final = Path(__file__).parent / "kwok_stages"
MANAGED_NODES: Final = "kwok.x-k8s.io/node=fake"
"""Annotation of the nodes kwok looks after."""
POD_CIDR: Final = "100.64.0.0/16"
"""Addresses of simulated pods. EndpointSlices refuse loopback addresses, so these are others."""
LEASE_SECONDS: Final = 40
"""How long a node's lease lasts; kwok renews it at a quarter of that."""


def stage_files() -> tuple[Path, ...]:
    """Return the Stage files in a steady order."""
    return tuple(sorted(STAGES.glob("*.yaml")))


def kwok_arguments(state: ClusterState) -> tuple[str, ...]:
    """Return kwok's command-line arguments for a cluster."""
    return (
        f"--kubeconfig={kubeconfig_file(state, 'kwok')}",
        f"--manage-nodes-with-annotation-selector={MANAGED_NODES}",
        f"--cidr={POD_CIDR}",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        f"--server-address=127.0.0.1:{state.kwok_port}",
        *(f"--config={path}" for path in stage_files()),
    )
