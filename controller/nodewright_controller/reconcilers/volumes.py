"""Which persistent volumes pods use, looked up in the local copies of their claims."""

from __future__ import annotations

from collections.abc import Iterable

from nodewright_controller.api.pod import Pod
from nodewright_controller.api.volumes import PersistentVolumeClaim
from nodewright_controller.ports.store import Store


class Volumes:
    """Resolves the volumes of pods."""

    def __init__(self, claims: Store[PersistentVolumeClaim]) -> None:
        self._claims = claims

    def of(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the names of the volumes that the pods' claims are bound to."""
        names = set()
        for pod in pods:
            for claim_name in claim_names(pod):
                claim = self._claims.get(f"{pod.metadata.namespace}/{claim_name}")
                if claim is not None and claim.spec.volume_name:
                    names.add(claim.spec.volume_name)
        return frozenset(names)


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the pod's claims, those of generic ephemeral volumes too."""
    names = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.name}-{volume.name}")
    return tuple(names)
