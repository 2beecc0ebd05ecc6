"""NodeOverlay (`karpenter.sh/v1alpha1`): what instance types cost or have, when the catalogue errs.

Which overlay wins, and how prices add up, is decided where overlays are applied.
Upstream: pkg/apis/v1alpha1/nodeoverlay.go.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from nodewright_controller.api.labels import GROUP, HOSTNAME
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.nodepool import OPERATORS
from nodewright_controller.api.pod import Quantities
from nodewright_controller.api.rules import (
    LABEL_VALUE_SCHEMA,
    OVERLAY_LABELS,
    QUALIFIED_NAME,
    restricted_aws,
    restricted_core,
)
from nodewright_controller.api.schema import Rule, doc

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage", "pods")


class OverlayRequirement(Struct):
    """One requirement on the labels of an instance type or offering."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule=(
                "!(self.operator in ['In', 'NotIn']) || "
                "(has(self.values) && self.values.size() > 0)"
            ),
            message="requirements with operator 'In' or 'NotIn' must have a value defined",
        ),
        Rule(
            rule=(
                "!(self.operator in ['Gt', 'Gte', 'Lt', 'Lte']) || (has(self.values) && "
                "self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$'))"
            ),
            message=(
                "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' "
                "must have a single positive integer value"
            ),
        ),
    )

    key: Annotated[
        str,
        doc(
            "The label that the requirement is about.",
            required=True,
            maxLength=316,
            pattern=QUALIFIED_NAME,
            rules=(
                Rule(
                    rule=f"!{restricted_core('self')}",
                    message='label domain "karpenter.sh" is restricted',
                ),
                Rule(rule=f"self != '{HOSTNAME}'", message=f'label "{HOSTNAME}" is restricted'),
                Rule(
                    rule=f"!{restricted_aws('self', OVERLAY_LABELS)}",
                    message='label domain "karpenter.k8s.aws" is restricted',
                ),
            ),
        ),
    ] = ""
    operator: Annotated[
        str, doc("How the label relates to the values.", required=True, enum=OPERATORS)
    ] = ""
    values: Annotated[
        list[Annotated[str, doc("", **LABEL_VALUE_SCHEMA)]] | None,
        doc("The values that the operator works on.", **{"x-kubernetes-list-type": "atomic"}),
    ] = None


class NodeOverlaySpec(Struct):
    """What to change, and for which instance types."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="!has(self.price) || !has(self.priceAdjustment)",
            message="cannot set both 'price' and 'priceAdjustment'",
            field_path=".price",
        ),
    )

    requirements: Annotated[
        list[OverlayRequirement],
        doc(
            "Which instance types and offerings are meant; an empty list means all of them.",
            required=True,
            maxItems=100,
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = msgspec.field(default_factory=list)
    price: Annotated[
        str | None,
        doc(
            "The price in US dollars per hour, instead of the listed one.", pattern=r"^\d+(\.\d+)?$"
        ),
    ] = None
    price_adjustment: Annotated[
        str | None,
        doc(
            """A change of the listed price, always signed: +0.5 or -1.2 dollars per hour,
            +10% or -25%; -100% makes it free.""",
            pattern=r"^(\+\d+(\.\d+)?%?|-\d+(\.\d+)?|-\d{1,2}(\.\d+)?%|-100%)$",
        ),
    ] = None
    capacity: Annotated[
        Quantities | None,
        doc(
            "Extended resources that these instance types have, such as smarter-devices/fuse: 1.",
            rules=(
                Rule(
                    rule=f"self.all(x, !(x in {list(_STANDARD)}))",
                    message=f"invalid resource: {', '.join(_STANDARD)} cannot be overlaid",
                ),
            ),
            maxProperties=100,
        ),
    ] = None
    weight: Annotated[
        int | None,
        doc(
            "Where overlays disagree the higher weight wins; left out, it is 0.",
            format="int32",
            minimum=1,
            maximum=10000,
        ),
    ] = None


class NodeOverlayStatus(Struct):
    """Whether the overlay is applied."""

    conditions: Annotated[
        list[Condition] | None, doc("Ready, and what it depends on: ValidationSucceeded.")
    ] = None


class NodeOverlay(KubeObject):
    """A NodeOverlay corrects the price or the extended resources of instance types. Alpha."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1alpha1", "NodeOverlay", "nodeoverlays")

    spec: Annotated[
        NodeOverlaySpec, doc("What to change, and for which instance types.", required=True)
    ] = msgspec.field(default_factory=NodeOverlaySpec)
    status: Annotated[NodeOverlayStatus, doc("Whether the overlay is applied.")] = msgspec.field(
        default_factory=NodeOverlayStatus
    )
