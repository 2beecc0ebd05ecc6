"""Files to a world: what is filled in, what is converted, and what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from nodewright_controller.cluster.pods import is_provisionable, pod_requests
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scenario.files import FilesError, read_expected, read_folder
from nodewright_controller.scenario.loading import load_world
from nodewright_controller.scenario.values import World


def world_of(folder: Path, text: str) -> World:
    (folder / "input.yaml").write_text(text)
    return load_world(read_folder(folder))


def test_a_deployment_of_three_is_three_pending_pods(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, resources: {requests: {cpu: 100m}}}]}
""",
    )

    assert [pod.key for pod in world.pods] == ["default/web-0", "default/web-1", "default/web-2"]
    assert all(is_provisionable(pod) for pod in world.pods)
    assert world.pods[0].labels["app"] == "web"
    assert world.pods[0].labels["pod-template-hash"]
    assert world.scenario.steps == ("provision",)


def test_a_stateful_set_adds_only_the_pods_and_claims_that_are_missing(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop}
spec: {nodeName: n1, containers: [{name: main}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 2
  template: {spec: {containers: [{name: main}]}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: gp}
""",
    )

    assert {pod.key: pod.spec.node_name for pod in world.pods} == {
        "shop/db-0": "n1",
        "shop/db-1": "",
    }
    assert {stored.key for stored in world.storage} == {"shop/data-db-0", "shop/data-db-1"}
    volumes = next(pod for pod in world.pods if pod.name == "db-1").spec.volumes or []
    claim = volumes[0].persistent_volume_claim
    assert claim is not None
    assert claim.claim_name == "data-db-1"


def test_broken_documents_become_warnings_and_the_rest_is_read(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: odd}
spec: {weight: heavy, template: {spec: {requirements: []}}}
---
this: [is no yaml
---
just a text
---
apiVersion: example.test/v1
kind: Widget
metadata: {name: whatsit}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hollow}
spec: {replicas: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: fine}
spec: {containers: [{name: main}]}
""",
    )

    assert [pod.name for pod in world.pods] == ["fine"]
    assert world.node_pools == ()
    joined = "\n".join(world.warnings)
    for part in (
        "NodePool odd: spec.weight",
        "document 2: no YAML",
        "document 3: no object with a kind",
        "Widget whatsit: this kind is not read here",
        "Deployment hollow: Deployment hollow: spec.template.spec",
    ):
        assert part in joined


def test_quantities_that_cannot_be_read_are_told_and_the_object_stays(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: v1
kind: Node
metadata: {name: odd}
status: {allocatable: {cpu: lots}}
---
apiVersion: v1
kind: Pod
metadata: {name: running}
spec: {nodeName: odd, containers: [{name: main, resources: {requests: {cpu: lots}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec: {containers: [{name: main, resources: {requests: {cpu: lots}}}]}
""",
    )

    assert [node.name for node in world.nodes] == ["odd"]
    assert [pod.name for pod in world.pods] == ["running", "waiting"]
    told = [text for text in world.warnings if "'lots' is no quantity" in text]
    assert [text.partition(":")[0] for text in told] == ["Node odd", "Pod default/running"]


def test_an_old_pool_is_converted_and_an_odd_version_is_refused(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: old}
spec:
  template: {spec: {nodeClassRef: {name: stock}, requirements: []}}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 10h}
---
apiVersion: karpenter.sh/v1alpha5
kind: NodePool
metadata: {name: ancient}
spec: {}
""",
    )

    pool = world.node_pools[0]
    assert pool.spec.template.spec.expire_after == "10h"
    assert pool.spec.disruption.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert any("ancient" in text and "not served" in text for text in world.warnings)


def test_limit_ranges_and_runtime_classes_are_applied_as_at_admission(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: v1
kind: LimitRange
metadata: {name: d, namespace: shop}
spec:
  limits:
  - {type: Container, max: {cpu: '2'}, defaultRequest: {memory: 64Mi}}
  - {type: Pod, max: {cpu: '9'}}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: vm}
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {vm: 'true'}, tolerations: [{key: vm, operator: Exists}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop}
spec:
  runtimeClassName: vm
  priorityClassName: urgent
  containers: [{name: main}]
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec: {containers: [{name: main}]}
""",
    )

    bare, elsewhere = world.pods
    # The maximum is the default limit, and that is the default request of cpu.
    wanted = Resources.parse({"cpu": "2250m", "memory": "64Mi", "pods": "1"})
    assert pod_requests(bare) == wanted
    assert bare.spec.node_selector == {"vm": "true"}
    assert bare.spec.priority == 1000
    assert pod_requests(elsewhere) == Resources({"pods": 1})


def test_nodes_and_claims_are_paired_by_name_when_ids_are_left_out(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: apps}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c1, labels: {karpenter.sh/nodepool: apps}}
spec: {requirements: []}
status: {nodeName: n1}
""",
    )

    assert world.nodes[0].spec.provider_id
    assert world.nodes[0].spec.provider_id == world.node_claims[0].status.provider_id


def test_unknown_words_of_our_own_kinds_are_reported(tmp_path: Path) -> None:
    world = world_of(
        tmp_path,
        """
apiVersion: test.local/v1
kind: Scenario
metadata: {name: s}
spec: {run: provision, now: soon, colour: blue}
---
apiVersion: test.local/v1
kind: InstanceCatalog
metadata: {name: world}
types:
- {name: m9.large, shape: round, capacity: {cpu: lots}}
- {name: m9.small, offerings: [{zone: a, price: 1}]}
""",
    )

    assert world.catalog[0].name == "m9.small"
    joined = "\n".join(world.warnings)
    for part in ("spec.run", "spec.now", "spec.colour", "shape", "m9.large", "capacityType"):
        assert part in joined


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# nothing here\n", "no ```yaml block"),
        ("## Must happen\n\n```yaml\n- a\n```\n", "no map of outcomes"),
        ("## Must happen\n\n```yaml\na: [\n```\n", "no YAML"),
    ],
)
def test_an_expectation_that_cannot_be_read_says_why(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / "expected.md").write_text(text)

    with pytest.raises(FilesError, match=problem):
        read_expected(tmp_path)


def test_a_folder_without_yaml_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match=r"has no input\.yaml"):
        read_folder(tmp_path)
    with pytest.raises(FilesError, match="is no folder"):
        read_folder(tmp_path / "nowhere")


def test_lists_and_several_files_make_one_world(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: x}}\n"
    )
    (tmp_path / "b.json").write_text('{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}')

    world = load_world(read_folder(tmp_path))

    assert [space.name for space in world.namespaces] == ["x"]
    assert world.namespaces[0].labels == {"kubernetes.io/metadata.name": "x"}
    assert [node.name for node in world.nodes] == ["n"]
