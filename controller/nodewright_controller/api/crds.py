"""The CustomResourceDefinitions, made from the API models: what is served, stored, and shown.

The fields come from the models (`schema`); this module adds what `kubectl get` shows, names,
subresources and the conversion between versions. The YAML under `nodewright_templates/crds` is
written from here and compared with it by a golden test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.schema import object_schema
from nodewright_controller.api.v1beta1 import EC2NodeClassBeta, NodeClaimBeta, NodePoolBeta

CONVERSION: Final[dict[str, Any]] = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {
            "service": {
                "namespace": "karpenter",
                "name": "karpenter",
                "port": 8443,
                "path": "/convert",
            }
        },
        "conversionReviewVersions": ["v1"],
    },
}
"""Where the API server has objects converted; the controller fills in the caBundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    description: str
    wide: bool = False
    """Only shown with `-o wide`."""

    def as_json(self) -> dict[str, Any]:
        """Return the entry of `additionalPrinterColumns`."""
        column: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.path,
            "description": self.description,
        }
        if self.wide:
            column["priority"] = 1
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A kind with its versions, newest first; the newest one is stored."""

    models: tuple[type[KubeObject], ...]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    scale: bool = False
    """Whether `kubectl scale` works on the stored version."""


_READY: Final = Column(
    name="Ready",
    path='.status.conditions[?(@.type=="Ready")].status',
    description="Whether it can be used.",
)
_AGE: Final = Column(
    name="Age", path=".metadata.creationTimestamp", type="date", description="How old it is."
)

_NODEPOOL: Final = Served(
    models=(NodePool, NodePoolBeta),
    scale=True,
    columns=(
        Column(
            name="NodeClass",
            path=".spec.template.spec.nodeClassRef.name",
            description="The node class that it launches with.",
        ),
        Column(
            name="Nodes", path=".status.nodes", type="integer", description="How many nodes it has."
        ),
        _READY,
        _AGE,
        Column(
            name="Weight",
            path=".spec.weight",
            type="integer",
            description="Pools with a higher weight are tried first.",
            wide=True,
        ),
        Column(
            name="CPU",
            path=".status.resources.cpu",
            description="CPUs of all its nodes.",
            wide=True,
        ),
        Column(
            name="Memory",
            path=".status.resources.memory",
            description="Memory of all its nodes.",
            wide=True,
        ),
    ),
)

_NODECLAIM: Final = Served(
    models=(NodeClaim, NodeClaimBeta),
    columns=(
        Column(
            name="Type",
            path=r".metadata.labels.node\.kubernetes\.io/instance-type",
            description="The instance type.",
        ),
        Column(
            name="Capacity",
            path=r".metadata.labels.karpenter\.sh/capacity-type",
            description="on-demand, spot or reserved.",
        ),
        Column(
            name="Zone",
            path=r".metadata.labels.topology\.kubernetes\.io/zone",
            description="The availability zone.",
        ),
        Column(name="Node", path=".status.nodeName", description="The node that joined for it."),
        _READY,
        _AGE,
        Column(name="ImageID", path=".status.imageID", description="The image it runs.", wide=True),
        Column(name="ID", path=".status.providerID", description="The instance.", wide=True),
        Column(
            name="NodePool",
            path=r".metadata.labels.karpenter\.sh/nodepool",
            description="The pool it belongs to.",
            wide=True,
        ),
        Column(
            name="NodeClass",
            path=".spec.nodeClassRef.name",
            description="The node class it was launched with.",
            wide=True,
        ),
        Column(
            name="Drifted",
            path='.status.conditions[?(@.type=="Drifted")].status',
            description="Whether it no longer is what its pool and class ask for.",
            wide=True,
        ),
    ),
)

_EC2NODECLASS: Final = Served(
    models=(EC2NodeClass, EC2NodeClassBeta),
    short_names=("ec2nc", "ec2ncs"),
    columns=(
        _READY,
        _AGE,
        Column(name="Role", path=".spec.role", description="The role of its nodes.", wide=True),
    ),
)

_NODEOVERLAY: Final = Served(
    models=(NodeOverlay,),
    short_names=("overlays",),
    columns=(
        _READY,
        _AGE,
        Column(
            name="Weight",
            path=".spec.weight",
            type="integer",
            description="Where overlays disagree the higher weight wins.",
            wide=True,
        ),
    ),
)

SERVED: Final = (_NODEPOOL, _NODECLAIM, _EC2NODECLASS, _NODEOVERLAY)


def crds() -> tuple[dict[str, Any], ...]:
    """Return all definitions, ready for the API server: the same ones in the same order always."""
    return tuple(_definition(served) for served in SERVED)


def crd_name(model: type[KubeObject]) -> str:
    """Return the name of the definition of a kind, such as `nodepools.karpenter.sh`."""
    return f"{model.KIND.plural}.{model.KIND.group}"


def _definition(served: Served) -> dict[str, Any]:
    kind = served.models[0].KIND
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "categories": ["karpenter"],
    }
    if served.short_names:
        names["shortNames"] = list(served.short_names)
    spec: dict[str, Any] = {
        "group": kind.group,
        "names": names,
        "scope": "Cluster",
        "versions": [
            _version(served, model, stored=model is served.models[0]) for model in served.models
        ],
    }
    if len(served.models) > 1:
        spec["conversion"] = CONVERSION
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd_name(served.models[0])},
        "spec": spec,
    }


def _version(served: Served, model: type[KubeObject], *, stored: bool) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if served.scale and stored:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.nodes",
        }
    return {
        "name": model.KIND.version,
        "served": True,
        "storage": stored,
        "additionalPrinterColumns": [column.as_json() for column in served.columns],
        "schema": {"openAPIV3Schema": object_schema(model)},
        "subresources": subresources,
    }
