"""The story of the demo: one pod, one node, and back to nothing.

Each method is a step and uses only what a person has: the stack's outputs, kubectl, the AWS tools.
Order and words stand in `steps`; how a step is timed and how failures end is `story.py`'s matter.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Final

from nodewright_local.demo import observe
from nodewright_local.demo.cluster_api import ClusterApi
from nodewright_local.demo.commands import Commands, write_kubeconfig
from nodewright_local.demo.emulator import Ec2Instance, Emulator
from nodewright_local.demo.errors import StoryError
from nodewright_local.demo.figures import controller_processes, seconds_until_first
from nodewright_local.demo.inventory import Clients, Inventory, take_inventory
from nodewright_local.demo.resource_steps import InHand, is_grouping, resource_line
from nodewright_local.demo.screen import Screen
from nodewright_local.demo.stack import LocalStack, open_stack, output
from nodewright_local.demo.story import CONTROLLER_LOGS, Step
from nodewright_local.engine import Phase, ResourceStep
from nodewright_local.lifecycle import MARKER, down, up
from nodewright_local.state import CLUSTER_FILE, ClusterState

POD: Final = "nginx"
POOL_LABEL: Final = "karpenter.sh/nodepool"
NODE_SELECTOR: Final = "app=hello-world"
CONSOLIDATE_AFTER_S: Final = 30.0
"""What walkthrough-nodepool.yaml says."""
NODE_WITHIN_S: Final = 240.0
GONE_WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.5
LONGEST_LOG_LINE: Final = 240
CLASS_FILE: Final = "walkthrough-ec2nodeclass.yaml"
POOL_FILE: Final = "walkthrough-nodepool.yaml"


def manifest(name: str, cluster_name: str) -> str:
    """Return a manifest of the walkthrough with the cluster's name filled in."""
    text = (resources.files("nodewright_local.demo.manifests") / name).read_text("utf-8")
    return Template(text).safe_substitute(CLUSTER_NAME=cluster_name)


class Walkthrough:
    """The steps, and what one step leaves to the next."""

    def __init__(self, directory: Path, checkout: Path, screen: Screen) -> None:
        self._directory = directory
        self._checkout = checkout
        self._screen = screen
        self.figures: list[tuple[str, str]] = []
        """What was measured: name and value."""
        self._state: ClusterState
        self._stack: LocalStack
        self._commands: Commands
        self._api: ClusterApi
        self._emulator: Emulator
        self._clients: Clients
        self._before: Inventory
        self._during: Inventory
        self._in_hand: InHand | None = None

    def steps(self, *, keep: bool = False) -> list[Step]:
        """Return the steps in order; with `keep` those up to the node's arrival."""
        arrival = [
            Step(
                title="Start the laptop cluster",
                words="A real Kubernetes control plane, simulated kubelets and a stand-in for AWS "
                "start on this machine.",
                act=self.start_cluster,
                logs=("supervisor.log",),
            ),
            Step(
                title="pulumi up",
                words="Pulumi's engine runs this project's program: a VPC, an EKS cluster, roles, "
                "an event queue, the CRDs and the controller's Deployment.",
                act=self.bring_stack_up,
                logs=("aws.log", "kubelets.log", CONTROLLER_LOGS),
            ),
            Step(
                title="pulumi preview",
                words="A second look must find nothing to do.",
                act=self.preview_again,
                logs=("aws.log",),
            ),
            Step(
                title="Say which nodes are wanted",
                words="An EC2NodeClass and a NodePool, as they were written for the v1beta1 API. "
                "The conversion webhook of the controller stores them as v1.",
                act=self.apply_manifests,
                logs=(CONTROLLER_LOGS,),
            ),
            Step(
                title="A pod that fits nowhere",
                words="The cluster's own nodes take no such pod. The controller sees it waiting, "
                "picks the cheapest instance type that fits, and launches it.",
                act=self.run_pod,
                logs=(CONTROLLER_LOGS, "aws.log", "kubelets.log"),
            ),
            Step(
                title="What the controller says",
                words="Two replicas run and one leads. Their logs are JSON, one line per decision.",
                act=self.show_logs,
                logs=("kubelets.log",),
            ),
            Step(
                title="What was bought",
                words="The instance as EC2 knows it, and why it was this one.",
                act=self.show_instance,
                logs=("aws.log",),
            ),
            Step(
                title="The node",
                words="It carries the label that the NodePool gives its nodes.",
                act=self.show_node,
                logs=("kubelets.log",),
            ),
        ]
        return arrival if keep else [*arrival, *self._way_back()]

    def _way_back(self) -> list[Step]:
        return [
            Step(
                title="The pod goes, and so does the node",
                words="The NodePool says consolidateAfter: 30s. So long the node stays empty, then "
                "it is tainted, drained and terminated.",
                act=self.delete_pod,
                logs=(CONTROLLER_LOGS, "aws.log"),
            ),
            Step(
                title="Delete the NodePool and the EC2NodeClass",
                words="The controller clears up what it made for them: launch templates and the "
                "instance profile.",
                act=self.delete_manifests,
                logs=(CONTROLLER_LOGS,),
            ),
            Step(
                title="pulumi destroy",
                words="Everything the stack made goes, in the reverse order.",
                act=self.destroy_stack,
                logs=("aws.log", "kubelets.log", CONTROLLER_LOGS),
            ),
            Step(
                title="Nothing is left",
                words="AWS is asked for everything, and compared with what there was before the "
                "stack.",
                act=self.prove_nothing_is_left,
                logs=("aws.log",),
            ),
            Step(
                title="Stop the laptop cluster",
                words="The processes end; only their logs stay.",
                act=self.stop_cluster,
                logs=("supervisor.log",),
            ),
        ]

    def start_cluster(self) -> None:
        """Start a fresh cluster, after clearing what an earlier demo left."""
        if (self._directory / MARKER).exists() and (self._directory / CLUSTER_FILE).exists():
            self._screen.note("an earlier demo was not cleared up; doing that first")
            down(self._directory, self._screen)
        up(self._directory, self._screen)
        self._state = ClusterState.load(self._directory)  # now with the processes' pids
        self._emulator = Emulator(self._state.aws_url)
        self._stack = open_stack(
            self._state, self._checkout, on_step=self._tell_resource, on_message=self._tell_message
        )
        self._clients = Clients(self._stack.environ)
        self._before = take_inventory(self._clients)
        self._screen.good(
            f"Kubernetes {self._state.versions['kubernetes']} at {self._state.api_server_url}, "
            f"AWS at {self._state.aws_url} ({self._state.region})"
        )

    def bring_stack_up(self) -> None:
        """Create the stack and take its kubeconfig."""
        with self._engine_at_work("Pulumi is creating the stack"):
            outcome = self._stack.engine.up()
        kubeconfig = output(outcome.outputs, "kubeconfig")
        path = write_kubeconfig(kubeconfig, self._state.pulumi_dir / "kubeconfig.json")
        environ = {**self._stack.environ, "KUBECONFIG": str(path)}
        self._cluster_name = output(outcome.outputs, "clusterName")
        self._commands = Commands(environ, self._screen)
        self._api = ClusterApi(kubeconfig, environ)
        self._screen.good(
            f"{outcome.changes.get('create', 0)} resources created; from here on the cluster is "
            "reached with the stack's own kubeconfig (aws eks get-token)"
        )
        self._commands.show("kubectl", "get", "pods", "-n", "karpenter", "-o", "wide")

    def preview_again(self) -> None:
        """Fail unless a preview finds no change."""
        with self._engine_at_work("Pulumi compares the program with what there is"):
            outcome = self._stack.engine.preview()
        if outcome.changed:
            wanted = "\n".join(
                f"{step.operation} {step.type} {step.name} {', '.join(step.properties)}"
                for step in outcome.steps
            )
            raise StoryError(f"the preview wants to change something:\n{wanted}")
        self._screen.good(f"{outcome.changes.get('same', 0)} resources, no change")

    def apply_manifests(self) -> None:
        """Apply the two manifests and wait until both are ready."""
        for name in (CLASS_FILE, POOL_FILE):
            filled = manifest(name, self._cluster_name)
            path = self._manifest_path(name)
            path.write_text(filled, "utf-8")
            self._commands.show("kubectl", "apply", "-f", str(path))
        self._watch(
            "the NodePool and its EC2NodeClass become ready",
            until=lambda: all(
                observe.is_true(item, "Ready")
                for item in (*self._api.list("ec2nodeclasses"), *self._api.list("nodepools"))
            ),
            lines=self._configuration_lines,
            within_s=NODE_WITHIN_S,
        )
        self._commands.show("kubectl", "get", "nodepools,ec2nodeclasses")

    def run_pod(self) -> None:
        """Create the pod and follow it until it runs on a node of its own."""
        self._commands.show("kubectl", "run", POD, "--image=nginx")
        self._watch(
            "the pod gets its node",
            until=self._has_arrived,
            lines=self._lines,
            within_s=NODE_WITHIN_S,
        )
        pod = self._pod()
        if pod is None:
            raise StoryError(f"pod {POD} went away while it was being watched")
        self._measure(pod)

    def show_logs(self) -> None:
        """Show the controller's last lines, read through the API server from the kubelet."""
        answer = self._commands.show(
            "kubectl",
            "logs",
            "-n",
            "karpenter",
            "-l",
            "app.kubernetes.io/name=karpenter",
            "--tail=12",
            longest_line=LONGEST_LOG_LINE,
        )
        if not answer.strip():
            raise StoryError("kubectl logs printed nothing")

    def show_instance(self) -> None:
        """Show the instance, its price, and how many types stood to choose."""
        self._commands.show(
            "aws",
            "ec2",
            "describe-instances",
            "--filters",
            f"Name=tag-key,Values={POOL_LABEL}",
            "--query",
            "Reservations[].Instances[].[InstanceId,InstanceType,Placement.AvailabilityZone,State.Name]",
            "--output",
            "table",
        )
        instance = self._instance()
        offered = sum(
            1 for _ in self._clients.pages("ec2", "describe_instance_types", "InstanceTypes")
        )
        fitting = self._types_on_the_claim()
        price = (
            "an unknown price"
            if instance.usd_per_hour is None
            else (f"{instance.usd_per_hour:.4f} USD per hour")
        )
        self._screen.good(
            f"{instance.instance_type} ({instance.architecture}, {instance.capacity_type}) in "
            f"{instance.zone} for {price}, from image {instance.image_name}"
        )
        self._screen.good(
            f"of {offered} types in {self._state.region}, {fitting} satisfy the NodePool and "
            f"hold the pod, and {instance.considered_types} were offered to CreateFleet"
        )

    def show_node(self) -> None:
        """Show the nodes that carry the NodePool's label."""
        answer = self._commands.show("kubectl", "get", "nodes", "-l", NODE_SELECTOR)
        if " Ready " not in answer:
            raise StoryError(f"no node with {NODE_SELECTOR} is Ready:\n{answer}")

    def delete_pod(self) -> None:
        """Delete the pod, and wait until its node and instance are gone."""
        self._during = take_inventory(self._clients)
        instance = self._instance()
        begun = time.monotonic()
        self._commands.show("kubectl", "delete", "pod", POD)
        emptied = time.monotonic()

        def countdown() -> str:
            left = CONSOLIDATE_AFTER_S - (time.monotonic() - emptied)
            if left > 0:
                return f"consolidateAfter: the empty node stays for another {left:.0f} s"
            return "the node is drained and its instance terminated"

        self._watch(
            "the node goes",
            until=lambda: self._has_gone(instance.instance_id),
            lines=self._lines,
            within_s=GONE_WITHIN_S,
            title=countdown,
        )
        seconds = time.monotonic() - begun
        self._screen.good(
            f"node and instance {instance.instance_id} are gone after {seconds:.0f} s"
        )
        self._commands.show("kubectl", "get", "nodeclaims")

    def delete_manifests(self) -> None:
        """Delete what was applied; kubectl returns when the controller let go of it."""
        self._measure_memory()
        for name in (POOL_FILE, CLASS_FILE):
            with self._screen.waiting("the controller clears up"):
                self._commands.show("kubectl", "delete", "-f", str(self._manifest_path(name)))

    def destroy_stack(self) -> None:
        """Destroy everything and forget the stack."""
        self._api.close()
        with self._engine_at_work("Pulumi is deleting the stack"):
            outcome = self._stack.engine.destroy(remove=True)
        self._screen.good(f"{outcome.changes.get('delete', 0)} resources deleted")

    def prove_nothing_is_left(self) -> None:
        """Fail unless AWS holds what it held before the stack."""
        with self._screen.waiting("AWS is asked"):
            left = _settled(lambda: take_inventory(self._clients).beyond(self._before))
        during = self._during.beyond(self._before)
        rows = [
            (kind, str(len(found)), str(len(left.get(kind, ())))) for kind, found in during.items()
        ]
        rows += [(kind, "0", str(len(left[kind]))) for kind in left if kind not in during]
        self._screen.table(("kind", "with the pod", "left"), rows, right=2)
        if left:
            names = "; ".join(f"{kind}: {', '.join(sorted(ids))}" for kind, ids in left.items())
            raise StoryError(f"something is left in AWS: {names}")
        self._screen.good("nothing is left")

    def stop_cluster(self) -> None:
        """End the processes and remove their data."""
        self._emulator.close()
        down(self._directory, self._screen)

    def _manifest_path(self, name: str) -> Path:
        return self._state.pulumi_dir / name

    def _pod(self) -> Any:
        pods = self._api.list("pods", namespace="default")
        return next((pod for pod in pods if pod["metadata"]["name"] == POD), None)

    def _instance(self) -> Ec2Instance:
        found = self._emulator.fleet_instances()
        if len(found) != 1:
            types = ", ".join(item.instance_type for item in found) or "none"
            raise StoryError(f"one instance was to be launched for one pod, and there is: {types}")
        return found[0]

    def _types_on_the_claim(self) -> int:
        """Return how many instance types the NodeClaim allows."""
        for claim in self._api.list("nodeclaims"):
            for requirement in claim["spec"]["requirements"]:
                if requirement["key"] == observe.INSTANCE_TYPE:
                    return len(requirement["values"])
        raise StoryError("no NodeClaim says which instance types it may have")

    def _has_arrived(self) -> bool:
        pod = self._pod()
        claims = self._api.list("nodeclaims")
        return (
            pod is not None
            and observe.is_true(pod, "Ready")
            and all(observe.is_true(claim, "Ready") for claim in claims)
        )

    def _has_gone(self, instance_id: str) -> bool:
        return (
            not self._api.list("nodeclaims")
            and not self._api.list("nodes", labels=NODE_SELECTOR)
            and all(
                item.state == "terminated"
                for item in self._emulator.instances()
                if item.instance_id == instance_id
            )
        )

    def _lines(self) -> dict[str, str]:
        """Describe everything that concerns the pod."""
        pods = self._api.list("pods", namespace="default")
        return {
            **observe.named("pod", ((_name(pod), observe.pod_line(pod)) for pod in pods)),
            **observe.named(
                "nodeclaim",
                ((_name(one), observe.claim_line(one)) for one in self._api.list("nodeclaims")),
            ),
            **observe.named(
                "instance",
                (
                    (one.instance_id, observe.instance_line(one))
                    for one in self._emulator.instances(launched_by="fleet")
                ),
            ),
            **observe.named(
                "node",
                (
                    (_name(one), observe.node_line(one))
                    for one in self._api.list("nodes", labels=NODE_SELECTOR)
                ),
            ),
        }

    def _configuration_lines(self) -> dict[str, str]:
        return {
            **observe.named(
                "ec2nodeclass",
                (
                    (_name(one), observe.readiness_line(one))
                    for one in self._api.list("ec2nodeclasses")
                ),
            ),
            **observe.named(
                "nodepool",
                ((_name(one), observe.readiness_line(one)) for one in self._api.list("nodepools")),
            ),
        }

    def _watch(
        self,
        what: str,
        *,
        until: Callable[[], bool],
        lines: Callable[[], dict[str, str]],
        within_s: float,
        title: Callable[[], str] | None = None,
    ) -> None:
        """Show what changes until something is so."""
        news = observe.News()
        begun = time.monotonic()
        with self._screen.waiting(title() if title else what) as waiting:
            while True:
                done = until()
                for line in news.of(lines()):
                    self._screen.change(time.monotonic() - begun, line)
                if done:
                    return
                if time.monotonic() - begun > within_s:
                    raise StoryError(f"not within {within_s:.0f} s: {what}")
                if title:
                    waiting.text = title()
                time.sleep(LOOK_EVERY_S)

    def _measure(self, pod: Any) -> None:
        created = observe.created_at(pod)
        fleet = seconds_until_first(created, self._emulator.call_times("CreateFleet"))
        if fleet is None:
            raise StoryError("the pod runs, but AWS has no record of a CreateFleet call")
        ready = observe.since(pod, "Ready")
        assert ready is not None  # the pod was seen to be Ready
        self._figure("pod created → CreateFleet", f"{fleet:.1f} s")
        self._figure("pod created → pod Ready", f"{_seconds(created, ready):.0f} s")

    def _measure_memory(self) -> None:
        found = controller_processes(self._state.pids["kubelets"])
        if not found:
            raise StoryError("no process of the controller runs below the kubelets")
        sizes = " and ".join(f"{item.resident_mib:.0f} MiB" for item in found)
        self._figure(f"memory of the controller's {len(found)} replicas at rest", sizes)

    def _figure(self, name: str, value: str) -> None:
        self.figures.append((name, value))
        self._screen.good(f"{name}: {value}")

    @contextmanager
    def _engine_at_work(self, text: str) -> Iterator[None]:
        """Show what the engine has in hand for as long as the block runs."""
        with self._screen.waiting(text) as waiting:
            self._in_hand = InHand(text, waiting)
            try:
                yield
            finally:
                self._in_hand = None

    def _tell_resource(self, step: ResourceStep) -> None:
        if self._in_hand is not None:
            self._in_hand.see(step)
        if step.planned or step.phase is Phase.STARTED or is_grouping(step.type):
            return
        self._screen.note(resource_line(step))

    def _tell_message(self, severity: str, text: str) -> None:
        if severity in ("warning", "error"):
            self._screen.note(f"pulumi {severity}: {text}")


def _settled(
    leftovers: Callable[[], dict[str, frozenset[str]]], within_s: float = 20.0
) -> dict[str, frozenset[str]]:
    """Ask again for a while: what AWS deletes takes a moment to disappear."""
    deadline = time.monotonic() + within_s
    while (left := leftovers()) and time.monotonic() < deadline:
        time.sleep(1.0)
    return left


def _name(found: Any) -> str:
    return str(found["metadata"]["name"])


def _seconds(begun: datetime, ended: datetime) -> float:
    return (ended - begun).total_seconds()
