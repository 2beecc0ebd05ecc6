"""Attachments are carried out in EC2, nodes tell their driver, and pods wait for their volumes."""

from typing import Any

import pytest
from nodewright_local.kubelets.volumes.attacher import Attacher, AttachmentStep, attachment_step
from nodewright_local.kubelets.volumes.csi_node import csi_node, without_agent_taint
from nodewright_local.kubelets.volumes.ebs import Ebs, EbsRefused
from nodewright_local.kubelets.volumes.mounts import can_mount, waits_for_volumes
from typing_extensions import override

from tests.local.kubelets.builders import hardware, instance
from tests.local.kubelets.storage import FakeApi, attachment, claim, storage, volume

FINALIZER = "external-attacher/ebs-csi-aws-com"
PATH = "/apis/storage.k8s.io/v1/volumeattachments/csi-1"
DRIVER = {"name": "ebs.csi.aws.com", "nodeID": "i-1"}
OBJECTS = {
    "/apis/storage.k8s.io/v1/csinodes/node-1": {"spec": {"drivers": [DRIVER]}},
    "/api/v1/persistentvolumes/pvc-1": volume(phase="Bound"),
}


class FakeEbs(Ebs):
    def __init__(self, *, refuses: bool = False) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.refuses = refuses

    @override
    def attach(self, volume_id: str, instance_id: str) -> str:
        if self.refuses:
            raise EbsRefused("IncorrectState")
        self.calls.append(("attach", volume_id, instance_id))
        return "/dev/xvdaa"

    @override
    def detach(self, volume_id: str, instance_id: str) -> None:
        self.calls.append(("detach", volume_id, instance_id))


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (attachment(), AttachmentStep.ATTACH),
        (attachment(attached=True), AttachmentStep.NOTHING),
        (attachment(deletionTimestamp="now", finalizers=[FINALIZER]), AttachmentStep.DETACH),
        (attachment(deletionTimestamp="now", finalizers=["other"]), AttachmentStep.NOTHING),
        ({**attachment(), "spec": {"attacher": "efs.csi.aws.com"}}, AttachmentStep.NOTHING),
    ],
)
def test_each_attachment_has_its_step(found: Any, step: AttachmentStep) -> None:
    assert attachment_step(found) is step


async def test_an_attachment_is_held_before_the_volume_is_attached() -> None:
    api, ebs = FakeApi(OBJECTS), FakeEbs()

    await Attacher(api=api, ebs=ebs).serve(attachment())

    assert ebs.calls == [("attach", "vol-1", "i-1")]
    [hold, status] = api.writes
    assert hold[1:] == (
        PATH,
        {
            "metadata": {
                "finalizers": [FINALIZER],
                "annotations": {"csi.alpha.kubernetes.io/node-id": "i-1"},
            }
        },
    )
    assert status[1] == f"{PATH}/status"
    assert status[2]["status"]["attached"] is True
    assert status[2]["status"]["attachmentMetadata"] == {"devicePath": "/dev/xvdaa"}


async def test_an_ended_attachment_goes_after_its_volume_was_detached() -> None:
    api, ebs = FakeApi(OBJECTS), FakeEbs()
    ended = attachment(
        attached=True,
        deletionTimestamp="now",
        finalizers=[FINALIZER, "other"],
        annotations={"csi.alpha.kubernetes.io/node-id": "i-1"},
    )

    await Attacher(api=api, ebs=ebs).serve(ended)

    assert ebs.calls == [("detach", "vol-1", "i-1")]
    assert api.writes[-1][2] == {"metadata": {"finalizers": ["other"]}}


@pytest.mark.parametrize("objects", [OBJECTS, {}])
async def test_a_failure_is_told_in_the_status_and_not_repeated_at_once(objects: Any) -> None:
    api, ebs = FakeApi(objects), FakeEbs(refuses=True)
    attacher = Attacher(api=api, ebs=ebs)

    await attacher.serve(attachment())
    await attacher.serve(attachment())

    told = [body for _, path, body in api.writes if path == f"{PATH}/status"]
    [error] = [body["status"]["attachError"]["message"] for body in told]
    assert "IncorrectState" in error or "CSINode of node-1" in error


def test_the_node_owns_what_tells_of_its_driver() -> None:
    node = {"metadata": {"name": "node-1", "uid": "uid-of-node-1"}}

    made = csi_node(node, instance(), hardware(volumes_for_pods=25))

    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-of-node-1"
    [driver] = made["spec"]["drivers"]
    assert driver["nodeID"] == "i-0123456789abcdef0"
    assert driver["allocatable"] == {"count": 25}
    assert "topology.kubernetes.io/zone" in driver["topologyKeys"]


def test_only_the_drivers_own_startup_taint_is_taken_off() -> None:
    ours = {"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}
    other = {"key": "team", "effect": "NoSchedule"}
    node = {"metadata": {"resourceVersion": "5"}, "spec": {"taints": [ours, other]}}

    assert without_agent_taint(node) == {
        "metadata": {"resourceVersion": "5"},
        "spec": {"taints": [other]},
    }
    assert without_agent_taint({**node, "spec": {"taints": [other]}}) is None
    assert without_agent_taint({**node, "spec": {}}) is None


def pod(*, node: str = "node-1", ready: bool = False, ephemeral: bool = False) -> Any:
    source = {"ephemeral": {}} if ephemeral else {"persistentVolumeClaim": {"claimName": "c"}}
    condition = {"type": "PodReadyToStartContainers", "status": "True"}
    return {
        "metadata": {"name": "db-0", "namespace": "default"},
        "spec": {"nodeName": node, "volumes": [{"name": "data", **source}]},
        "status": {"conditions": [condition] if ready else []},
    }


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        (pod(), True),
        (pod(ephemeral=True), True),
        (pod(node=""), False),
        (pod(ready=True), False),
        ({**pod(), "spec": {"nodeName": "node-1", "volumes": [{"emptyDir": {}}]}}, False),
    ],
)
def test_bound_pods_with_claims_wait_until_they_were_told(found: Any, waits: bool) -> None:
    assert waits_for_volumes(found) is waits


BOUND = claim("c", bound="pvc-1")


@pytest.mark.parametrize(
    ("lists", "mountable"),
    [
        ({"claims": [BOUND], "volumes": [volume()], "attachments": [attachment()]}, False),
        (
            {
                "claims": [BOUND],
                "volumes": [volume()],
                "attachments": [attachment(attached=True)],
            },
            True,
        ),
        (
            {
                "claims": [BOUND],
                "volumes": [volume()],
                "attachments": [attachment(attached=True, node="node-2")],
            },
            False,
        ),
        (
            {
                "claims": [BOUND],
                "volumes": [volume()],
                "attachments": [attachment(attached=True, deletionTimestamp="now")],
            },
            False,
        ),
        ({"claims": [claim("c")]}, False),
        ({"claims": []}, False),
        ({"claims": [BOUND], "volumes": []}, False),
        (
            {
                "claims": [BOUND],
                "volumes": [{**volume(), "spec": {"nfs": {}}}],
            },
            True,
        ),
    ],
)
def test_a_pod_starts_when_its_volumes_are_attached_to_its_node(
    lists: Any, mountable: bool
) -> None:
    assert can_mount(pod(), storage(**lists)) is mountable


def test_an_ephemeral_claim_is_named_after_pod_and_volume() -> None:
    bound = claim("db-0-data", bound="pvc-1")
    lists = {"volumes": [volume()], "attachments": [attachment(attached=True)]}

    assert can_mount(pod(ephemeral=True), storage(claims=[bound], **lists))
