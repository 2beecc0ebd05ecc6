"""The CRDs as they are applied: the shipped ones, pointed at this cluster's webhook. Pure.

`caBundle` is left out on purpose: the controller fills it in and renews it, and a field that two
writers own would show up in every preview.
"""

import copy
import functools
from collections.abc import Mapping
from typing import Any

from nodewright_templates import crds

Manifest = dict[str, Any]

CONVERT_PATH = "/convert"


def service_client(namespace: str, service: str, port: int) -> Manifest:
    """Return a client configuration by which the API server calls a Service."""
    return {
        "service": {"namespace": namespace, "name": service, "port": port, "path": CONVERT_PATH}
    }


def url_client(url: str) -> Manifest:
    """Return a client configuration by which the API server calls an address."""
    return {"url": url}


def with_conversion(crd: Mapping[str, Any], client_config: Manifest) -> Manifest:
    """Return the CRD with its conversion webhook; one that has a single version needs none."""
    made: Manifest = copy.deepcopy(dict(crd))
    if len(made["spec"]["versions"]) > 1:
        made["spec"]["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config},
        }
    return made


@functools.cache
def shipped_crds() -> Mapping[str, Mapping[str, Any]]:
    """Return the CRDs of this release by name, such as `nodepools.karpenter.sh`.

    Read once, since parsing takes a second; copy before changing one.
    """
    return dict(sorted(crds.load().items()))
