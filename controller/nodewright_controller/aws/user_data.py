"""User data: what an instance is told at boot, so that it becomes a node of this cluster.

Pure. Each family's own format is in `nodeadm.py`, `al2.py`, `bottlerocket.py` and `windows.py`;
what they share (labels, taints, kubelet flags, MIME) is here or in `mime.py`.
Upstream: pkg/providers/amifamily/bootstrap.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

from nodewright_controller.aws import al2, bottlerocket, nodeadm, windows
from nodewright_controller.aws.bootstrap import Bootstrap
from nodewright_controller.aws.families import Family

_RENDERERS: Final[Mapping[Family, Callable[[Bootstrap], str]]] = {
    Family.AL2: al2.render_user_data,
    Family.AL2023: nodeadm.render_user_data,
    Family.BOTTLEROCKET: bottlerocket.render_user_data,
    Family.WINDOWS2019: windows.render_user_data,
    Family.WINDOWS2022: windows.render_user_data,
    Family.WINDOWS2025: windows.render_user_data,
    Family.CUSTOM: lambda bootstrap: bootstrap.custom,
}

MAX_BYTES: Final = 16384
"""EC2's limit, before base64."""


def render_user_data(family: Family, bootstrap: Bootstrap) -> str:
    """Return the user data as text.

    Raises:
        ValueError: the user's own data is malformed for the family; the message says how.

    """
    return _RENDERERS[family](bootstrap)


def encode(user_data: str) -> str:
    """Return user data as the API takes it."""
    return base64.b64encode(user_data.encode()).decode()
