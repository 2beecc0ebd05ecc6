"""A whole controller side over fakes: world, writes, recorder and a clock that tests move."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.api.node import Node, NodeSpec, NodeStatus, Taint
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import PodDisruptionBudget, VolumeAttachment
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from nodewright_controller.api.workloads import DaemonSet, LimitRange, Namespace
from nodewright_controller.ports.events import Event
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.reconcilers.provisioning import Provisioner
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime.batch_window import BatchWindow
from nodewright_controller.scheduling.problem import SolverOptions

from tests.fakes.cloud import FakeCloud
from tests.fakes.kube import FakeKube

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@dataclass
class FakeClock:
    """Stands still until it is moved."""

    current: datetime = START

    def now(self) -> datetime:
        return self.current

    def move(self, **span: float) -> None:
        self.current += timedelta(**span)


@dataclass
class FakeRecorder:
    """Keeps what was recorded."""

    events: list[Event] = field(default_factory=list)

    def record(self, event: Event) -> None:
        self.events.append(event)

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


class Harness:
    """Everything that a reconciler needs, and the hands of kubelet and kube-scheduler."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock.now)
        self.cloud = FakeCloud(self.clock.now())
        self.recorder = FakeRecorder()
        store = self.kube.store
        self.world = World(
            nodes=store(Node),
            node_claims=store(NodeClaim),
            node_pools=store(NodePool),
            node_classes=store(EC2NodeClass),
            pods=store(Pod),
            daemon_sets=store(DaemonSet),
            disruption_budgets=store(PodDisruptionBudget),
            volume_attachments=store(VolumeAttachment),
            limit_ranges=store(LimitRange),
            namespaces=store(Namespace),
            volume_claims=store(PersistentVolumeClaim),
            volumes=store(PersistentVolume),
            storage_classes=store(StorageClass),
            csi_nodes=store(CSINode),
        )
        self.world.wire()
        self.writes = Writes(self.kube, self.world, self.clock)

    def make_provisioner(
        self, *, window: BatchWindow | None = None, nominations: Nominations | None = None
    ) -> Provisioner:
        """Return a provisioner that closes its batches at once; `cloud` must be set before."""
        return Provisioner(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            nominations=nominations or Nominations(),
            window=window or BatchWindow(idle_seconds=0.01, max_seconds=0.05),
            options=SolverOptions(),
            nomination=timedelta(seconds=20),
        )

    def claim(self, name: str) -> NodeClaim:
        """Return a claim that must be there."""
        found = self.world.node_claims.get(name)
        assert found is not None, f"claim {name} is gone"
        return found

    def node(self, name: str) -> Node:
        """Return a node that must be there."""
        found = self.world.nodes.get(name)
        assert found is not None, f"node {name} is gone"
        return found

    def condition(self, claim_name: str, type_: str) -> Condition | None:
        """Return a condition of a claim."""
        conditions = self.claim(claim_name).status.conditions or ()
        return next((c for c in conditions if c.type == type_), None)

    def join(self, claim_name: str, *, ready: bool = True) -> Node:
        """Let the instance of a claim register as a kubelet does."""
        claim = self.claim(claim_name)
        return self.kube.add(
            Node(
                metadata=ObjectMeta(name=f"node-{claim_name}"),
                spec=NodeSpec(
                    provider_id=claim.status.provider_id,
                    taints=[Taint(key="karpenter.sh/unregistered", effect="NoExecute")],
                ),
                status=NodeStatus(
                    capacity=claim.status.capacity,
                    allocatable=claim.status.allocatable,
                    conditions=[Condition(type="Ready", status="True" if ready else "False")],
                ),
            )
        )
