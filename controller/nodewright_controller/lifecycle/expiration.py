"""When a NodeClaim has lived long enough.

Upstream: pkg/controllers/nodeclaim/expiration.
"""

from __future__ import annotations

from datetime import datetime

from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.kernel.timing import parse_nillable_duration


def expires_at(node_claim: NodeClaim) -> datetime | None:
    """Return when the claim expires; None means never."""
    created = node_claim.metadata.creation_timestamp
    lifetime = parse_nillable_duration(node_claim.spec.expire_after)
    return None if created is None or lifetime is None else created + lifetime
