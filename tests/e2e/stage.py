"""The stack `local` on a laptop cluster of the tests' own, and how to act on it."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from nodewright_local.demo import observe
from nodewright_local.demo.cluster_api import ClusterApi
from nodewright_local.demo.commands import write_kubeconfig
from nodewright_local.demo.emulator import Ec2Instance, Emulator
from nodewright_local.demo.inventory import Clients, Inventory, take_inventory
from nodewright_local.demo.stack import LocalStack, find_checkout, open_stack
from nodewright_local.engine import Outcome
from nodewright_local.state import ClusterState

from tests.local.running import LaptopCluster, eventually

ALLOWANCE_S = 900
"""Per test: the first one pays for the cluster and the stack, about two minutes on a free machine."""
NODE_WITHIN_S = 180.0
GONE_WITHIN_S = 240.0
MANIFESTS = Path(__file__).parents[1] / "data" / "manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything a test needs to act and to look."""

    cluster: LaptopCluster
    stack: LocalStack
    came_up: Outcome
    before: Inventory
    """What AWS held before the stack."""
    clients: Clients
    emulator: Emulator
    api: ClusterApi
    """The API by the kubeconfig that the stack exports."""
    kubeconfig: Path
    """That kubeconfig."""
    cluster_name: str

    @property
    def state(self) -> ClusterState:
        """The cluster's facts, with the pids of right now."""
        return ClusterState.load(self.cluster.state.state_dir)

    def manifest(self, name: str) -> str:
        """Return a manifest of the tests' data with the cluster's name filled in."""
        text = (MANIFESTS / name).read_text("utf-8")
        return Template(text).safe_substitute(CLUSTER_NAME=self.cluster_name)

    def apply(self, *manifests: str) -> None:
        """Apply manifests as a user does, through the webhook."""
        for text in manifests:
            self.cluster.kubectl("apply", "-f", "-", stdin=text)

    def run_pod(self, name: str, **spec: Any) -> None:
        """Create a pod with one container; `requests` goes to it, the rest is the pod's spec."""
        requests = spec.pop("requests", {})
        self.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [
                        {"name": "main", "image": "nginx", "resources": {"requests": requests}}
                    ],
                    **spec,
                },
            }
        )

    def pods(self) -> dict[str, Any]:
        """Return the pods of the default namespace by name."""
        return {pod["metadata"]["name"]: pod for pod in self.api.list("pods", namespace="default")}

    def node_of(self, pod: str) -> str | None:
        """Return the node on which a pod is Ready, None while it is not."""
        found = self.pods().get(pod)
        if found is None or not observe.is_true(found, "Ready"):
            return None
        return str(found["spec"]["nodeName"])

    def wait_for_pod(self, pod: str, *, within_s: float = NODE_WITHIN_S) -> str:
        """Wait until a pod is Ready and return its node."""
        node: str = eventually(
            lambda: self.node_of(pod), within_s=within_s, what=f"pod {pod} runs: {self.tell()}"
        )
        return node

    def instance_of(self, node: str) -> Ec2Instance:
        """Return the instance behind a node."""
        found = [item for item in self.emulator.instances() if item.private_dns_name == node]
        assert len(found) == 1, f"{node} is {found}"
        return found[0]

    def claims(self) -> dict[str, Any]:
        """Return the NodeClaims by name."""
        return {claim["metadata"]["name"]: claim for claim in self.api.list("nodeclaims")}

    def events(self, pod: str, reason: str) -> list[str]:
        """Return the messages of one reason about the pod that has the name now.

        Events outlive their pod, and another test may have had one of the same name.
        """
        uid = self.pods()[pod]["metadata"]["uid"]
        return [
            str(event.get("message", ""))
            for event in self.api.list("events", namespace="default")
            if event["involvedObject"].get("uid") == uid and event.get("reason") == reason
        ]

    def wait_until_nothing_runs(self, *, within_s: float = GONE_WITHIN_S) -> None:
        """Wait until no NodeClaim, no node of one and no instance is left."""
        eventually(
            lambda: not self.claims() and not self.emulator.fleet_instances(),
            within_s=within_s,
            what="nodes and instances go",
        )
        eventually(
            lambda: not self.api.list("nodes", labels="karpenter.sh/nodepool"),
            within_s=30,
            what="nodes go",
        )

    def clear(self) -> None:
        """Remove pods, NodePools and EC2NodeClasses, and wait until their instances are gone."""
        self.emulator.set_capacity(())
        kubectl = self.cluster.kubectl
        kubectl("delete", "pods", "--all", "-n", "default", "--wait=false")
        kubectl("delete", "nodepools", "--all", "--wait=false")
        self.wait_until_nothing_runs()
        kubectl("delete", "ec2nodeclasses", "--all", "--wait=false")
        eventually(
            lambda: not self.api.list("ec2nodeclasses") and not self.api.list("nodepools"),
            within_s=60,
            what="NodePools and EC2NodeClasses go",
        )

    def tell(self) -> str:
        """Describe what there is, for the message of a failure."""
        pods = {name: observe.pod_line(pod) for name, pod in self.pods().items()}
        claims = {name: observe.claim_line(claim) for name, claim in self.claims().items()}
        return f"pods {pods}, claims {claims}"


@contextmanager
def open_stage(cluster: LaptopCluster) -> Iterator[Stage]:
    """Bring the stack up on a cluster."""
    stack = open_stack(cluster.state, find_checkout())
    clients = Clients(stack.environ)
    before = take_inventory(clients)
    with warnings.catch_warnings():  # Pulumi's AWS SDK warns of its own old names on import
        warnings.simplefilter("ignore", DeprecationWarning)
        came_up = stack.engine.up()
    text = came_up.outputs["kubeconfig"]
    path = write_kubeconfig(text, cluster.state.pulumi_dir / "kubeconfig.json")
    with ClusterApi(text, stack.environ) as api:
        emulator = Emulator(cluster.state.aws_url)
        yield Stage(
            cluster=cluster,
            stack=stack,
            came_up=came_up,
            before=before,
            clients=clients,
            emulator=emulator,
            api=api,
            kubeconfig=path,
            cluster_name=came_up.outputs["clusterName"],
        )
        emulator.close()


def node_class(stage: Stage, **spec: Any) -> str:
    """Return an EC2NodeClass `default` in v1 for the stack's subnets; `spec` overrides its fields."""
    tags = {"karpenter.sh/discovery": stage.cluster_name}
    return _text(
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        "default",
        {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": f"KarpenterNodeRole-{stage.cluster_name}",
            "subnetSelectorTerms": [{"tags": tags}],
            "securityGroupSelectorTerms": [{"tags": tags}],
            **spec,
        },
    )


def node_pool(name: str, *, consolidate_after: str = "Never", **requirements: list[str]) -> str:
    """Return a NodePool in v1 for on-demand amd64; `requirements` are label suffixes of ours.

    `category=["t"]` stands for the label karpenter.k8s.aws/instance-category.
    """
    wanted = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        *(
            {"key": f"karpenter.k8s.aws/instance-{key}", "operator": "In", "values": values}
            for key, values in requirements.items()
        ),
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return _text(
        "karpenter.sh/v1",
        "NodePool",
        name,
        {
            "template": {"spec": {"nodeClassRef": reference, "requirements": wanted}},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": consolidate_after,
            },
        },
    )


def _text(version: str, kind: str, name: str, spec: Mapping[str, Any]) -> str:
    return json.dumps(
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    )
