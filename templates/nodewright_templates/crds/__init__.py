"""The CustomResourceDefinitions of NodePool, NodeClaim, EC2NodeClass and NodeOverlay, as YAML.

The files are generated from the controller's API models (`make golden`); edit those instead.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

import yaml

FILES: Final = (
    "karpenter.sh_nodepools.yaml",
    "karpenter.sh_nodeclaims.yaml",
    "karpenter.k8s.aws_ec2nodeclasses.yaml",
    "karpenter.sh_nodeoverlays.yaml",
)


def load() -> dict[str, dict[str, Any]]:
    """Return the definitions by name (`nodepools.karpenter.sh`), always in the same order.

    Each call reads the files anew, so a caller may change what it gets.
    """
    folder = resources.files(__name__)
    loaded = [yaml.safe_load((folder / name).read_text("utf-8")) for name in FILES]
    return {definition["metadata"]["name"]: definition for definition in loaded}
