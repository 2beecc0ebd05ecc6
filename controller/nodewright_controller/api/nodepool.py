"""NodePool (`karpenter.sh/v1`): what nodes may be bought, how many, and how they may be disrupted.

The sentences and limits here become the CRD (`crds`); what no schema can say is in `validation`.
Upstream: pkg/apis/v1/nodepool.go.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from nodewright_controller.api.labels import GROUP, HOSTNAME, NODEPOOL
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import Quantities
from nodewright_controller.api.rules import (
    BUDGET_DURATION,
    BUDGET_NODES,
    BUDGET_SCHEDULE,
    DURATION,
    DURATION_OR_NEVER,
    LABEL_VALUE_SCHEMA,
    QUALIFIED_NAME,
    restricted_aws,
    restricted_core,
)
from nodewright_controller.api.schema import Rule, doc

OPERATORS: Final = ["DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn"]
REASONS: Final = ["Drifted", "Empty", "Underutilized", "Unhealthy"]

_COMPARISONS: Final = "['Gt', 'Gte', 'Lt', 'Lte']"

KEY_RULES: Final = (
    Rule(
        rule=f"!{restricted_core('self')}",
        message='label domain "karpenter.sh" is restricted',
    ),
    Rule(
        rule=f"self != '{HOSTNAME}'",
        message=f'label "{HOSTNAME}" is restricted',
    ),
    Rule(
        rule=f"!{restricted_aws('self')}",
        message='label domain "karpenter.k8s.aws" is restricted: it has no such label',
    ),
)
"""Which label keys a requirement may name."""

NO_NODEPOOL_KEY: Final = Rule(
    rule=f"self.all(x, x.key != '{NODEPOOL}')",
    message=f'label "{NODEPOOL}" is restricted: it is the name of the NodePool itself',
)


TEMPLATE_LABEL_RULES: Final = (
    Rule(
        rule=f"self.all(x, !{restricted_core('x')})",
        message='label domain "karpenter.sh" is restricted',
    ),
    Rule(rule=f"self.all(x, x != '{NODEPOOL}')", message=f'label "{NODEPOOL}" is restricted'),
    Rule(rule=f"self.all(x, x != '{HOSTNAME}')", message=f'label "{HOSTNAME}" is restricted'),
    Rule(
        rule=f"self.all(x, !{restricted_aws('x')})",
        message='label domain "karpenter.k8s.aws" is restricted: it has no such label',
    ),
)
"""Which labels a NodePool may give its nodes. A message that names the offender would cost the API
server more than it allows for one schema; the controller's own validation names it."""


class NodeClassReference(Struct):
    """The node class that says how to launch."""

    group: Annotated[
        str,
        doc(
            "API group of the node class; karpenter.k8s.aws on AWS.",
            required=True,
            minLength=1,
            maxLength=253,
            pattern="^[^/]*$",
        ),
    ] = ""
    kind: Annotated[
        str,
        doc("Kind of the node class; EC2NodeClass on AWS.", required=True, minLength=1),
    ] = ""
    name: Annotated[str, doc("Name of the node class.", required=True, minLength=1)] = ""


class NodeSelectorRequirementWithMinValues(Struct):
    """One requirement on the labels of a node, with an optional breadth."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="self.operator != 'In' || (has(self.values) && self.values.size() > 0)",
            message="requirements with operator 'In' must have a value defined",
        ),
        Rule(
            rule=(
                f"!(self.operator in {_COMPARISONS}) || (has(self.values) && "
                "self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$'))"
            ),
            message=(
                "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' "
                "must have a single positive integer value"
            ),
        ),
        Rule(
            rule=(
                "self.operator != 'In' || !has(self.minValues) || "
                "(has(self.values) && self.values.size() >= self.minValues)"
            ),
            message=(
                "requirements with 'minValues' must have at least that many values specified "
                "in the 'values' field"
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
            rules=KEY_RULES,
        ),
    ] = ""
    operator: Annotated[
        str,
        doc(
            """How the label relates to the values: In and NotIn list them, Exists and DoesNotExist
            take none, Gt, Gte, Lt and Lte compare with one integer.""",
            required=True,
            enum=OPERATORS,
        ),
    ] = ""
    values: Annotated[
        list[Annotated[str, doc("", **LABEL_VALUE_SCHEMA)]] | None,
        doc("The values that the operator works on.", **{"x-kubernetes-list-type": "atomic"}),
    ] = None
    min_values: Annotated[
        int | None,
        doc(
            """How many different values of this label the instance types of one launch must cover.
            More breadth makes spot capacity easier to find. Alpha.""",
            minimum=1,
            maximum=50,
        ),
    ] = None


class TemplateMeta(Struct):
    """Labels and annotations that every node of the pool gets."""

    labels: Annotated[
        dict[str, Annotated[str, doc("", **LABEL_VALUE_SCHEMA)]] | None,
        doc(
            "Labels of every node of this pool; requirements on them can be met by these values.",
            maxProperties=100,
            rules=TEMPLATE_LABEL_RULES,
        ),
    ] = None
    annotations: Annotated[
        dict[str, str] | None, doc("Annotations of every node of this pool.")
    ] = None


class NodeClaimTemplateSpec(Struct):
    """What every NodeClaim of the pool has."""

    taints: Annotated[
        list[Taint] | None,
        doc(
            "Taints of the nodes: only pods that tolerate them are placed there.",
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    startup_taints: Annotated[
        list[Taint] | None,
        doc(
            """Taints that the nodes start with and that something else takes off, such as a
            networking agent. Pods need not tolerate them to make a node appear; the node counts as
            initialized once they are gone.""",
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    requirements: Annotated[
        list[NodeSelectorRequirementWithMinValues],
        doc(
            """What the nodes must be like: zones, architectures, instance types, capacity types and
            your own labels. All of them hold, together with what the pods ask for; an empty list
            leaves every choice open.""",
            required=True,
            maxItems=100,
            rules=(NO_NODEPOOL_KEY,),
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = msgspec.field(default_factory=list)
    node_class_ref: Annotated[
        NodeClassReference,
        doc(
            """The node class that says how nodes of this pool are launched: image, network, role.
            Its name may change, its group and kind may not.""",
            required=True,
            rules=(
                Rule(
                    rule="self.group == oldSelf.group",
                    message="nodeClassRef.group is immutable",
                    field_path=".group",
                ),
                Rule(
                    rule="self.kind == oldSelf.kind",
                    message="nodeClassRef.kind is immutable",
                    field_path=".kind",
                ),
            ),
        ),
    ] = msgspec.field(default_factory=NodeClassReference)
    termination_grace_period: Annotated[
        str | None,
        doc(
            """How long a node may drain before its pods are removed in spite of disruption budgets
            and do-not-disrupt, such as 30s, 5m, 1h. Left out: as long as it takes.""",
            pattern=DURATION,
        ),
    ] = None
    expire_after: Annotated[
        str | None,
        doc(
            """How old a node may get before it is replaced, such as 30s, 5m, 720h, or Never.
            Expiry is forceful: it does not wait for disruption budgets of the NodePool.""",
            default="720h",
            pattern=DURATION_OR_NEVER,
        ),
    ] = "720h"


class NodeClaimTemplate(Struct):
    """The template of the pool's NodeClaims."""

    metadata: Annotated[
        TemplateMeta, doc("Labels and annotations that every node of the pool gets.")
    ] = msgspec.field(default_factory=TemplateMeta)
    spec: Annotated[
        NodeClaimTemplateSpec, doc("What every node of the pool is like.", required=True)
    ] = msgspec.field(default_factory=NodeClaimTemplateSpec)


class Budget(Struct):
    """How many nodes may be disrupted at once, when, and for which reasons."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.schedule) == has(self.duration)",
            message="'schedule' must be set with 'duration'",
        ),
    )

    nodes: Annotated[
        str,
        doc(
            """How many nodes may be disrupted at the same time: a number such as 5, or a share of
            the pool such as 20% (rounded up). 0 stops disruption.""",
            required=True,
            default="10%",
            pattern=BUDGET_NODES,
        ),
    ] = "10%"
    reasons: Annotated[
        list[Annotated[str, doc("", enum=REASONS)]] | None,
        doc(
            "The reasons that this budget governs; left out, it governs all.",
            maxItems=50,
            **{"x-kubernetes-list-type": "set"},
        ),
    ] = None
    schedule: Annotated[
        str | None,
        doc(
            """When the budget begins to apply, in UTC: five cron fields, or @yearly, @annually,
            @monthly, @weekly, @daily, @midnight, @hourly. Left out with `duration`: always.""",
            pattern=BUDGET_SCHEDULE,
        ),
    ] = None
    duration: Annotated[
        str | None,
        doc(
            "How long it applies from each hit of the schedule, in hours and minutes: 10h5m.",
            pattern=BUDGET_DURATION,
        ),
    ] = None


class Disruption(Struct):
    """When nodes of the pool may be disrupted."""

    consolidate_after: Annotated[
        str,
        doc(
            """How long a node must have been without pods coming or going before it is considered
            for consolidation, such as 30s, 5m, 1h; Never switches consolidation off.""",
            default="0s",
            pattern=DURATION_OR_NEVER,
        ),
    ] = "0s"
    consolidation_policy: Annotated[
        str,
        doc(
            """Which nodes are considered for consolidation: WhenEmpty (no pods but daemons),
            WhenEmptyOrUnderutilized (also those whose pods fit elsewhere, or on something cheaper),
            Balanced (as the latter, when the saving is worth the disturbance).""",
            default="WhenEmptyOrUnderutilized",
            enum=["Balanced", "WhenEmpty", "WhenEmptyOrUnderutilized"],
        ),
    ] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[
        list[Budget] | None,
        doc(
            """How many nodes may be disrupted at the same time. Of all budgets that apply, the
            strictest counts. Left out: 10% of the pool.""",
            default=[{"nodes": "10%"}],
            maxItems=50,
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = msgspec.field(default_factory=lambda: [Budget()])


class NodePoolSpec(Struct):
    """The policy."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.replicas) == has(oldSelf.replicas)",
            message=(
                "a NodePool cannot change between static (with replicas) and dynamic "
                "(without replicas): create another one"
            ),
        ),
        Rule(
            rule=(
                "!has(self.replicas) || !has(self.limits) || "
                "self.limits.size() == (('nodes' in self.limits) ? 1 : 0)"
            ),
            message="only 'limits.nodes' is supported on a NodePool with replicas",
            field_path=".limits",
        ),
        Rule(
            rule="!has(self.replicas) || !has(self.weight)",
            message="'weight' is not supported on a NodePool with replicas",
            field_path=".weight",
        ),
    )

    template: Annotated[
        NodeClaimTemplate, doc("What the nodes of this pool are like.", required=True)
    ] = msgspec.field(default_factory=NodeClaimTemplate)
    disruption: Annotated[
        Disruption,
        doc(
            "When, and how many at once, nodes of this pool may be disrupted to save money.",
            default={"consolidateAfter": "0s"},
        ),
    ] = msgspec.field(default_factory=Disruption)
    limits: Annotated[
        Quantities | None,
        doc(
            """The most that all nodes of this pool together may have, such as cpu: 100 or
            memory: 1000Gi; `nodes` limits their number. No node is launched beyond it.""",
        ),
    ] = None
    weight: Annotated[
        int | None,
        doc(
            "Pools with a higher weight are tried first; left out, it is 0.",
            format="int32",
            minimum=1,
            maximum=100,
        ),
    ] = None
    replicas: Annotated[
        int | None,
        doc(
            """A fixed number of nodes, kept whether pods need them or not; consolidation then
            leaves the pool alone. Alpha (feature gate StaticCapacity).""",
            minimum=0,
        ),
    ] = None


class NodePoolStatus(Struct):
    """What the pool has now."""

    resources: Annotated[
        Quantities | None, doc("What all nodes of this pool have together; limits compare with it.")
    ] = None
    nodes: Annotated[int, doc("How many nodes the pool has.", default=0)] = 0
    node_class_observed_generation: Annotated[
        int, doc("The generation of the node class that the conditions were observed for.")
    ] = 0
    conditions: Annotated[
        list[Condition] | None,
        doc("Ready, and what it depends on: ValidationSucceeded and NodeClassReady."),
    ] = None


class NodePool(KubeObject):
    """A NodePool says which nodes may be launched for pods that do not fit, and when they may go."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1", "NodePool", "nodepools")

    spec: Annotated[
        NodePoolSpec,
        doc(
            """Which nodes this pool may launch, how many, and when they may be disrupted.
            A pod goes to the pool whose requirements, taints and limits admit it.""",
            required=True,
        ),
    ] = msgspec.field(default_factory=NodePoolSpec)
    status: Annotated[NodePoolStatus, doc("What the pool has now.")] = msgspec.field(
        default_factory=NodePoolStatus
    )
