"""What is wrong with an object that the API server let through.

The schema of the CRD refuses most mistakes; these are the ones it cannot see, or could not see when
the object was stored. The answers are sentences that begin with the field's path and become the
message of the condition ValidationSucceeded. What depends on the cloud (do the subnets exist, does
the kubelet section suit the image family) is found by the AWS edge.
Upstream: pkg/apis/v1/nodepool_validation.go, nodeclaim_validation.go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from nodewright_controller.api.ec2nodeclass import (
    AMI_FAMILIES,
    RESERVED_TAGS,
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
)
from nodewright_controller.api.labels import (
    AWS_GROUP,
    AWS_LABELS,
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    HOSTNAME,
    NODEPOOL,
    NORMALIZED,
    is_restricted,
)
from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import (
    OPERATORS,
    Budget,
    NodeClassReference,
    NodePool,
    NodePoolSpec,
    NodeSelectorRequirementWithMinValues,
)
from nodewright_controller.api.rules import BUDGET_NODES, LABEL_VALUE, QUALIFIED_NAME
from nodewright_controller.kernel.cron import check_schedule
from nodewright_controller.kernel.resources import parse_quantity
from nodewright_controller.kernel.timing import parse_duration, parse_nillable_duration

_KEY: Final = re.compile(QUALIFIED_NAME)
_VALUE: Final = re.compile(LABEL_VALUE)
_NODES: Final = re.compile(BUDGET_NODES)
_MOST_WEIGHT: Final = 100
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_COMPARISONS: Final = ("Gt", "Gte", "Lt", "Lte")
_CLOSED: Final[Mapping[str, tuple[str, ...]]] = {CAPACITY_TYPE: CAPACITY_TYPES}
"""Labels that have these values and no others."""


def validate_nodepool(pool: NodePool) -> list[str]:
    """Return what is wrong with a NodePool; empty when nothing is."""
    template, disruption = pool.spec.template, pool.spec.disruption
    at = "spec.template.spec"
    problems = [
        *_labels(template.metadata.labels or {}, "spec.template.metadata.labels"),
        *_all_taints(template.spec.taints, template.spec.startup_taints, at),
        *_requirements(template.spec.requirements, f"{at}.requirements"),
        *(
            f"{at}.requirements[{index}].key: {NODEPOOL} is set by the NodePool itself; remove it"
            for index, requirement in enumerate(template.spec.requirements)
            if requirement.key == NODEPOOL
        ),
        *_reference(template.spec.node_class_ref, f"{at}.nodeClassRef"),
        *_parses(parse_nillable_duration, template.spec.expire_after, f"{at}.expireAfter"),
        *_parses(
            parse_nillable_duration,
            template.spec.termination_grace_period,
            f"{at}.terminationGracePeriod",
        ),
        *_parses(
            parse_nillable_duration,
            disruption.consolidate_after,
            "spec.disruption.consolidateAfter",
        ),
    ]
    for index, budget in enumerate(disruption.budgets or ()):
        problems.extend(_budget(budget, f"spec.disruption.budgets[{index}]"))
    for resource, text in (pool.spec.limits or {}).items():
        problems.extend(_parses(parse_quantity, text, f"spec.limits[{resource}]"))
    problems.extend(_numbers(pool.spec))
    return problems


def _numbers(spec: NodePoolSpec) -> Iterable[str]:
    if spec.weight is not None and not 1 <= spec.weight <= _MOST_WEIGHT:
        yield f"spec.weight: {spec.weight} is not between 1 and {_MOST_WEIGHT}"
    if spec.replicas is None:
        return
    if spec.replicas < 0:
        yield f"spec.replicas: {spec.replicas} must not be negative"
    if spec.weight is not None:
        yield "spec.weight: cannot stand beside replicas"
    if set(spec.limits or {}) - {"nodes"}:
        yield "spec.limits: only nodes can be limited beside replicas"


def validate_node_claim(claim: NodeClaim) -> list[str]:
    """Return what is wrong with a NodeClaim; empty when nothing is."""
    spec = claim.spec
    return [
        *_all_taints(spec.taints, spec.startup_taints, "spec"),
        *_requirements(spec.requirements, "spec.requirements"),
        *_reference(spec.node_class_ref, "spec.nodeClassRef"),
        *_parses(parse_nillable_duration, spec.expire_after, "spec.expireAfter"),
        *_parses(
            parse_nillable_duration, spec.termination_grace_period, "spec.terminationGracePeriod"
        ),
        *(
            problem
            for resource, text in (spec.resources.requests or {}).items()
            for problem in _parses(parse_quantity, text, f"spec.resources.requests[{resource}]")
        ),
    ]


def validate_node_class(node_class: EC2NodeClass) -> list[str]:
    """Return what is wrong with an EC2NodeClass as it is written; empty when nothing is."""
    spec = node_class.spec
    problems = [
        f"{field}: at least one term is needed"
        for field, terms in (
            ("spec.subnetSelectorTerms", spec.subnet_selector_terms),
            ("spec.securityGroupSelectorTerms", spec.security_group_selector_terms),
            ("spec.amiSelectorTerms", spec.ami_selector_terms),
        )
        if not terms
    ]
    if bool(spec.role) == bool(spec.instance_profile):
        problems.append("spec.role: exactly one of role and instanceProfile must be given")
    problems.extend(_image_terms(spec))
    problems.extend(_tags(spec.tags or {}))
    roots = sum(device.root_volume for device in spec.block_device_mappings or ())
    if roots > 1:
        problems.append(f"spec.blockDeviceMappings: {roots} are the rootVolume; one can be")
    return problems


def validate_requirement(
    requirement: NodeSelectorRequirementWithMinValues, path: str = "requirement"
) -> list[str]:
    """Return what is wrong with one requirement; its key may be a deprecated one."""
    key = NORMALIZED.get(requirement.key, requirement.key)
    values = requirement.values or []
    problems = [*_key(key, f"{path}.key"), *_restricted(key, f"{path}.key")]
    if requirement.operator not in OPERATORS:
        problems.append(
            f"{path}.operator: {requirement.operator!r} is not one of {', '.join(OPERATORS)}"
        )
    problems.extend(
        f"{path}.values[{index}]: {value!r} is not a label value"
        for index, value in enumerate(values)
        if not _is_value(value)
    )
    problems.extend(_operands(requirement, values, f"{path}.values"))
    problems.extend(_closed_set(key, requirement, f"{path}.values"))
    return problems


# --- Labels and requirements ---


def _labels(labels: Mapping[str, str], path: str) -> Iterable[str]:
    for key, value in labels.items():
        at = f"{path}[{key}]"
        if key == NODEPOOL:
            yield f"{at}: this label is set by the NodePool itself; remove it"
        yield from _key(key, at)
        yield from _restricted(key, at)
        if not _is_value(value):
            yield f"{at}: {value!r} is not a label value"


def _requirements(
    requirements: Sequence[NodeSelectorRequirementWithMinValues], path: str
) -> Iterable[str]:
    for index, requirement in enumerate(requirements):
        yield from validate_requirement(requirement, f"{path}[{index}]")


def _key(key: str, path: str) -> Iterable[str]:
    prefix, slash, name = key.rpartition("/")
    if not _KEY.fullmatch(key) or len(name) > 63 or (slash and len(prefix) > 253):
        yield f"{path}: {key!r} is not a label key (an optional DNS name, a slash, up to 63 letters)"


def _restricted(key: str, path: str) -> Iterable[str]:
    domain = key.partition("/")[0] if "/" in key else ""
    if is_restricted(key):
        what = "the host name" if key == HOSTNAME else "Karpenter's own domain"
        yield f"{path}: label {key} is restricted: it belongs to {what}"
    elif (domain == AWS_GROUP or domain.endswith(f".{AWS_GROUP}")) and key not in AWS_LABELS:
        yield f"{path}: label {key} is restricted: {AWS_GROUP} has no such label"


def _is_value(value: str) -> bool:
    return len(value) <= 63 and _VALUE.fullmatch(value) is not None


def _operands(
    requirement: NodeSelectorRequirementWithMinValues, values: Sequence[str], path: str
) -> Iterable[str]:
    operator = requirement.operator
    if operator == "In" and not values:
        yield f"{path}: operator In needs at least one value"
    if operator in _COMPARISONS and not (len(values) == 1 and re.fullmatch("[0-9]+", values[0])):
        yield f"{path}: operator {operator} needs exactly one integer that is not negative"
    least = requirement.min_values
    if operator == "In" and least is not None and 0 < len(values) < least:
        yield f"{path}: minValues is {least}, but only {len(values)} are listed"


def _closed_set(
    key: str, requirement: NodeSelectorRequirementWithMinValues, path: str
) -> Iterable[str]:
    known = _CLOSED.get(key)
    if known is None or requirement.operator != "In" or not requirement.values:
        return
    valid = [value for value in requirement.values if value in known]
    if not valid:
        yield f"{path}: {key} has none of {requirement.values}; it knows {', '.join(known)}"
    elif requirement.min_values is not None and len(valid) < requirement.min_values:
        yield (
            f"{path}: minValues is {requirement.min_values}, but only {valid} are values of {key}"
        )


# --- Taints, budgets, references ---


def _all_taints(
    taints: Sequence[Taint] | None, startup_taints: Sequence[Taint] | None, path: str
) -> Iterable[str]:
    placed = [(taint, f"{path}.taints[{i}]") for i, taint in enumerate(taints or ())]
    placed += [
        (taint, f"{path}.startupTaints[{i}]") for i, taint in enumerate(startup_taints or ())
    ]
    times = Counter((taint.key, taint.effect) for taint, _ in placed)
    for taint, at in placed:
        yield from _key(taint.key, f"{at}.key")
        if not _is_value(taint.value):
            yield f"{at}.value: {taint.value!r} is not a taint value"
        if taint.effect not in _EFFECTS:
            yield f"{at}.effect: {taint.effect!r} is not one of {', '.join(_EFFECTS)}"
        if times[taint.key, taint.effect] > 1:
            yield f"{at}: there is more than one taint {taint.key}:{taint.effect}"


def _budget(budget: Budget, path: str) -> Iterable[str]:
    if not _NODES.fullmatch(budget.nodes):
        yield f"{path}.nodes: {budget.nodes!r} is neither a number nor a share such as 10%"
    if (budget.schedule is None) != (budget.duration is None):
        yield f"{path}: schedule and duration go together; give both or none"
    yield from _parses(check_schedule, budget.schedule, f"{path}.schedule")
    yield from _parses(parse_duration, budget.duration, f"{path}.duration")


def _reference(reference: NodeClassReference, path: str) -> Iterable[str]:
    for field in ("group", "kind", "name"):
        if not getattr(reference, field):
            yield f"{path}.{field}: must not be empty"
    if "/" in reference.group:
        yield f"{path}.group: {reference.group!r} must not contain a version"


def _parses(parse: Callable[[str], object], text: object, path: str) -> Iterable[str]:
    if text is None:
        return
    try:
        parse(str(text))
    except ValueError as error:
        yield f"{path}: {error}"


# --- EC2NodeClass ---


def _image_terms(spec: EC2NodeClassSpec) -> Iterable[str]:
    aliases = [term.alias for term in spec.ami_selector_terms if term.alias]
    for index, term in enumerate(spec.ami_selector_terms):
        if term.alias:
            yield from _alias(term, spec.ami_family, f"spec.amiSelectorTerms[{index}]")
    if aliases and len(spec.ami_selector_terms) > 1:
        yield "spec.amiSelectorTerms: an alias must be the only term"
    if not aliases and spec.ami_selector_terms and not spec.ami_family:
        yield "spec.amiFamily: must be given when no term is an alias"
    if spec.ami_family and spec.ami_family not in AMI_FAMILIES:
        yield f"spec.amiFamily: {spec.ami_family!r} is not one of {', '.join(AMI_FAMILIES)}"


def _alias(term: AMISelectorTerm, family: str | None, path: str) -> Iterable[str]:
    name, at, version = term.alias.partition("@")
    families = [known.lower() for known in AMI_FAMILIES if known != "Custom"]
    if not (name and at and version):
        yield f"{path}.alias: {term.alias!r} must look like family@version"
    elif name not in families:
        yield f"{path}.alias: family {name!r} is not one of {', '.join(families)}"
    elif name.startswith("windows") and version != "latest":
        yield f"{path}.alias: {name} has no versions; use {name}@latest"
    elif family and family != "Custom" and family.lower() != name:
        yield f"spec.amiFamily: {family} does not fit the alias {term.alias}"
    if term.id or term.tags or term.name or term.owner:
        yield f"{path}.alias: cannot stand beside id, tags, name or owner"


def _tags(tags: Mapping[str, str]) -> Iterable[str]:
    for key in tags:
        at = f"spec.tags[{key}]"
        if not key:
            yield f"{at}: the key must not be empty"
        elif key in RESERVED_TAGS or key.startswith("kubernetes.io/cluster"):
            yield f"{at}: this tag is set by Karpenter; remove it"
