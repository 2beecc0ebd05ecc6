"""Ending and resuming the heartbeat of a node that kwok keeps alive.

kwok heartbeats a node whose annotation says so and whose lease it holds. A machine that stops loses
both: the annotation, so that kwok lets go of node and pods, and the lease, which is taken away for
good because kwok otherwise goes on renewing it. Nobody renews it then, and the node lifecycle
controller marks the node NotReady as it does on EKS.
"""

from nodewright_local.kubelets.api import MERGE_PATCH, ApiClient, ApiError
from nodewright_local.kubelets.node_object import DEAD, KWOK_ANNOTATION

_FOR_GOOD_SECONDS = 2_000_000_000
"""So long that kwok never sees the lease as free (the field is a signed 32-bit number)."""


async def end_heartbeat(api: ApiClient, node_name: str) -> None:
    """Let the node fall silent; raises ApiError (404: there is no such node), ApiUnreachable."""
    annotations = {KWOK_ANNOTATION: DEAD}
    await api.patch(
        f"/api/v1/nodes/{node_name}", {"metadata": {"annotations": annotations}}, MERGE_PATCH
    )
    taken = {"holderIdentity": node_name, "leaseDurationSeconds": _FOR_GOOD_SECONDS}
    try:
        await api.patch(_lease(node_name), {"spec": taken}, MERGE_PATCH)
    except ApiError as error:
        if error.status != 404:  # a node that never had a heartbeat has nothing to lose
            raise


async def free_heartbeat(api: ApiClient, node_name: str) -> None:
    """Give the lease free again, for a machine that boots; raises ApiError, ApiUnreachable."""
    try:
        await api.delete(_lease(node_name))
    except ApiError as error:
        if error.status != 404:
            raise


def _lease(node_name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node_name}"
