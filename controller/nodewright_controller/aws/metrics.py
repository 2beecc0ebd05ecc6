"""Metrics that only the AWS side knows, by Karpenter's names, in the one registry.

Upstream: pkg/controllers/interruption/metrics.go, pkg/batcher, pkg/providers/instancetype.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

from nodewright_controller.runtime.metrics import REGISTRY

_NS: Final = "karpenter"

INTERRUPTION_RECEIVED = Counter(
    "interruption_received_messages_total",
    "Messages read from the interruption queue.",
    ("message_type",),
    namespace=_NS,
    registry=REGISTRY,
)
INTERRUPTION_DELETED = Counter(
    "interruption_deleted_messages_total",
    "Messages deleted from the interruption queue.",
    namespace=_NS,
    registry=REGISTRY,
)
LAUNCH_FAILURES = Counter(
    "cloudprovider_instance_launch_failures_total",
    "Offerings that EC2 did not launch, by the reason it gave.",
    ("zone", "zone_id", "capacity_type", "reason"),
    namespace=_NS,
    registry=REGISTRY,
)
USER_DATA_BYTES = Gauge(
    "ec2nodeclasses_userdata_bytes",
    "Size of the user data that nodes of a node class get; EC2 takes 16384.",
    ("nodeclass",),
    namespace=_NS,
    registry=REGISTRY,
)
