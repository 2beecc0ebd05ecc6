"""Rules of a NodePool that are worth an error before anything is sent. Pure.

The API server has the last word; these are the mistakes it would report late or by a pattern.
Values that are still `Output`s pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewright.validation import Check, is_known

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
REASONS = ("Underutilized", "Empty", "Drifted")
DURATION = r"([0-9]+(s|m|h))+"
BUDGET_NODES = r"(100|[0-9]{1,2})%|[0-9]+"
BUDGET_DURATION = r"([0-9]+[hm]|[0-9]+h[0-9]+m)(0s)?"
SCHEDULE = r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|\S+(\s+\S+){4}"
OBJECT_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_NUMBER_OPERATORS = ("Gt", "Lt", "Gte", "Lte")


def check_node_pool(check: Check, args: Mapping[str, Any]) -> None:
    """Refuse what no NodePool may say."""
    template = args["template"]
    spec = template.get("spec")
    if spec is None:
        raise check.refuse("template.spec", "is missing", "give it a node_class_ref at least")
    check.between("weight", args.get("weight"), 1, 100)
    check.between("replicas", args.get("replicas"), 0, 100_000)
    _check_static(check, args)
    _check_labels(check, template.get("metadata", {}).get("labels", {}))
    _check_template(check, spec)
    _check_disruption(check, args.get("disruption", {}))


def _check_static(check: Check, args: Mapping[str, Any]) -> None:
    if args.get("replicas") is None:
        return
    if args.get("weight") is not None:
        raise check.refuse("weight", "is given beside replicas", "leave out one of the two")
    limits = args.get("limits") or {}
    if is_known(limits) and set(limits) - {"nodes"}:
        raise check.refuse(
            "limits", "names resources beside replicas", "keep only `nodes`: the size is fixed"
        )


def _check_labels(check: Check, labels: Any) -> None:
    if not is_known(labels):
        return
    for key in labels:
        domain = key.rpartition("/")[0]
        if domain.endswith("karpenter.sh") and key != "karpenter.sh/capacity-type":
            raise check.refuse(
                "template.metadata.labels", f"sets {key!r}", "use a label domain of your own"
            )
        if key == "kubernetes.io/hostname":
            raise check.refuse(
                "template.metadata.labels", f"sets {key!r}", "leave it out: each node has its own"
            )


def _check_template(check: Check, spec: Mapping[str, Any]) -> None:
    reference = spec.get("node_class_ref")
    if reference is None or reference.get("name") in (None, ""):
        raise check.refuse(
            "template.spec.node_class_ref", "names no class", "give it the name of an EC2NodeClass"
        )
    for index, requirement in enumerate(spec.get("requirements", [])):
        _check_requirement(check, f"template.spec.requirements[{index}]", requirement)
    for field in ("taints", "startup_taints"):
        for index, taint in enumerate(spec.get(field, [])):
            where = f"template.spec.{field}[{index}]"
            if taint.get("key") in (None, ""):
                raise check.refuse(f"{where}.key", "is missing", "give the taint a key")
            if taint.get("effect") is None:
                raise check.refuse(f"{where}.effect", "is missing", f"use one of {EFFECTS}")
            check.one_of(f"{where}.effect", taint["effect"], EFFECTS)
    grace = spec.get("termination_grace_period")
    check.matches("template.spec.termination_grace_period", grace, DURATION, "48h")
    check.matches(
        "template.spec.expire_after", spec.get("expire_after"), f"{DURATION}|Never", "720h or Never"
    )


def _check_requirement(check: Check, where: str, requirement: Mapping[str, Any]) -> None:
    key, operator = requirement.get("key"), requirement.get("operator")
    if key is None or operator is None:
        raise check.refuse(where, "lacks key or operator", "give it both")
    if key == "karpenter.sh/nodepool":
        raise check.refuse(f"{where}.key", f"is {key!r}", "leave it out: the pool sets it")
    check.one_of(f"{where}.operator", operator, OPERATORS)
    values = requirement.get("values", [])
    if not is_known(values) or not is_known(operator):
        return
    _check_values(check, where, operator, values)
    minimum = requirement.get("min_values")
    check.between(f"{where}.min_values", minimum, 1, 50)
    if operator == "In" and isinstance(minimum, int) and len(values) < minimum:
        raise check.refuse(
            f"{where}.min_values",
            f"is {minimum} with {len(values)} values",
            "name more values or ask for fewer",
        )


def _check_values(check: Check, where: str, operator: str, values: Sequence[Any]) -> None:
    if operator == "In" and not values:
        raise check.refuse(f"{where}.values", "is empty", "name at least one value for In")
    if operator in ("Exists", "DoesNotExist") and values:
        raise check.refuse(f"{where}.values", f"is given for {operator}", "leave it out")
    if operator not in _NUMBER_OPERATORS:
        return
    known = [value for value in values if is_known(value)]
    if len(values) != 1 or any(not str(value).isdigit() for value in known):
        raise check.refuse(
            f"{where}.values",
            f"is {list(values)!r} for {operator}",
            "give it exactly one whole number, as text",
        )


def _check_disruption(check: Check, disruption: Mapping[str, Any]) -> None:
    check.one_of(
        "disruption.consolidation_policy", disruption.get("consolidation_policy"), POLICIES
    )
    check.matches(
        "disruption.consolidate_after",
        disruption.get("consolidate_after"),
        f"{DURATION}|Never",
        "30s or Never",
    )
    for index, budget in enumerate(disruption.get("budgets", [])):
        where = f"disruption.budgets[{index}]"
        check.matches(f"{where}.nodes", budget.get("nodes"), BUDGET_NODES, "10% or 5, as text")
        check.matches(f"{where}.schedule", budget.get("schedule"), SCHEDULE, "0 9 * * mon-fri")
        check.matches(f"{where}.duration", budget.get("duration"), BUDGET_DURATION, "8h")
        for reason in budget.get("reasons", []):
            check.one_of(f"{where}.reasons", reason, REASONS)
        if (budget.get("schedule") is None) != (budget.get("duration") is None):
            raise check.refuse(
                where, "has one of schedule and duration", "give both or neither of them"
            )
