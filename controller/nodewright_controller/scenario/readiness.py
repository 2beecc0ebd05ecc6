"""Whether node classes and pools may make nodes: what the controller's conditions would say.

Validation that was passed by when an object was stored still counts here, as it does for the
controller, which looks again at what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import condition
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.validation import validate_nodepool
from nodewright_controller.aws.validation import problem_in_text
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scheduling.problem import not_ready

_READY: Final = "Ready"


def node_class_problem(node_class: EC2NodeClass) -> str:
    """Return why nothing can be launched with the class, or an empty text."""
    name = node_class.name
    if node_class.deleting:
        return f"EC2NodeClass {name} is being deleted"
    try:
        found = problem_in_text(node_class)
    except ValueError as error:
        return f"EC2NodeClass {name}: {error}"
    if found is not None:
        return f"EC2NodeClass {name} is not ready: {found.reason}: {found.message}"
    status = node_class.status
    for position, ami in enumerate(status.amis or ()):
        try:
            Requirements.of_entries(ami.requirements)
        except ValueError as error:
            return f"EC2NodeClass {name}: status.amis[{position}].requirements: {error}"
    ready = condition(status.conditions, _READY)
    if ready is not None and ready.status != "True":
        detail = ready.message or ready.reason or "its status says so"
        return f"EC2NodeClass {name} is not ready: {detail}"
    missing = [
        what
        for what, items in (
            ("image", status.amis),
            ("subnet", status.subnets),
            ("security group", status.security_groups),
        )
        if items is not None and not items
    ]
    if missing:
        return f"EC2NodeClass {name} is not ready: it selects no {' and no '.join(missing)}"
    return ""


def pool_problem(pool: NodePool, node_classes: Mapping[str, EC2NodeClass]) -> str:
    """Return why the pool cannot make nodes now, or an empty text."""
    name = pool.spec.template.spec.node_class_ref.name
    node_class = node_classes.get(name)
    below = f"EC2NodeClass {name} does not exist"
    if node_class is not None:
        below = node_class_problem(node_class)
    if condition(pool.status.conditions, _READY) is not None or pool.deleting:
        said = not_ready(pool)
        if said and not pool.deleting and below:
            return below  # a pool is not ready because its class is not
        if said:
            return said
    problems = validate_nodepool(pool)
    return "; ".join(problems) or below
