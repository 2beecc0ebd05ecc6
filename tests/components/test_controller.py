"""The controller's Deployment, permissions and settings."""

from typing import Any

import pytest
from nodewright import controller_rbac as rbac
from nodewright.controller import Controller
from nodewright.controller_pod import PodPlan, environment, pod_spec, webhook_hosts
from nodewright.controller_settings import ControllerSettingsArgs, gates, seconds
from nodewright.controller_settings import environment as settings_environment
from nodewright.quantities import millicores, whole_bytes
from nodewright.validation import InvalidArgumentError

from tests import golden
from tests.components import arguments
from tests.components.conftest import Build
from tests.components.recorder import Recorder

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
# Settings of Karpenter 1.15 that are arguments; the rest is fixed by the Deployment itself.
UPSTREAM_SETTINGS = {
    "CLUSTER_CA_BUNDLE",
    "ISOLATED_VPC",
    "EKS_CONTROL_PLANE",
    "VM_MEMORY_OVERHEAD_PERCENT",
    "RESERVED_ENIS",
    "DISABLE_DRY_RUN",
    "ENABLE_ZONAL_SHIFT",
    "AMI_REFRESH_INTERVAL",
    "SUBNET_REFRESH_INTERVAL",
    "AWS_FEATURE_GATES",
    "KUBE_CLIENT_QPS",
    "KUBE_CLIENT_BURST",
    "ENABLE_PROFILING",
    "DISABLE_CONTROLLER_WARMUP",
    "DISABLE_LEADER_ELECTION",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "LEADER_ELECTION_NAME",
    "LOG_LEVEL",
    "LOG_OUTPUT_PATHS",
    "LOG_ERROR_OUTPUT_PATHS",
    "BATCH_MAX_DURATION",
    "BATCH_IDLE_DURATION",
    "PREFERENCE_POLICY",
    "MIN_VALUES_POLICY",
    "IGNORE_DRA_REQUESTS",
    "SCHEDULER_CONFIG",
    "FEATURE_GATES",
}


def plan(**more: Any) -> PodPlan:
    return PodPlan(
        namespace="karpenter",
        image="registry.example/controller:1",
        cluster_name="demo",
        cluster_endpoint="https://api.eks.example",
        interruption_queue="demo",
        **more,
    )


def variables(pod_plan: PodPlan) -> dict[str, Any]:
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in environment(pod_plan)
    }


def test_the_pod_is_as_reviewed() -> None:
    golden.check_json("components/controller-pod.json", pod_spec(plan()))


def test_the_permissions_are_as_reviewed() -> None:
    golden.check_json(
        "components/controller-rbac.json",
        {
            "cluster": rbac.cluster_rules(),
            "namespace": rbac.namespace_rules("karpenter-leader-election"),
            "kube-system": rbac.dns_rules(),
            "admin": rbac.admin_rules(),
        },
    )


def test_services_are_read_for_default_spread_constraints_only() -> None:
    plain, spreading = rbac.cluster_rules(), rbac.cluster_rules(default_spreads=True)

    added = [rule for rule in spreading if rule not in plain]

    assert added == [rbac.rule("", ["services"], ["get", "list", "watch"])]


def test_a_scheduler_configuration_brings_the_permission_for_its_selectors(
    engine: Recorder, build: Build
) -> None:
    text = "podTopologySpread: {defaultConstraints: []}"

    build(lambda: Controller("ctl", arguments.controller(settings={"scheduler_config": text})))

    role = engine.named("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "ctl-cluster")
    read = [resource for rule in role.inputs["rules"] for resource in rule["resources"]]
    assert "services" in read


def test_no_permission_is_a_wildcard() -> None:
    rules = [*rbac.cluster_rules(), *rbac.namespace_rules("lease"), *rbac.dns_rules()]

    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_secrets_and_definitions_are_reached_by_name_only() -> None:
    rules = [*rbac.cluster_rules(), *rbac.namespace_rules("lease"), *rbac.dns_rules()]

    for rule in rules:
        touched = {"secrets", "customresourcedefinitions", "services"} & set(rule["resources"])
        assert not touched or rule.get("resourceNames") or rule["verbs"] == ["create"]
    assert not [rule for rule in rbac.cluster_rules() if "secrets" in rule["resources"]]


def test_every_setting_of_karpenter_has_its_argument() -> None:
    fields = {field.upper() for field in ControllerSettingsArgs.__annotations__}

    assert fields == UPSTREAM_SETTINGS


def test_zero_and_false_reach_the_controller() -> None:
    settings: ControllerSettingsArgs = {
        "vm_memory_overhead_percent": 0.0,
        "ignore_dra_requests": False,
        "reserved_enis": 0,
    }

    assert settings_environment(settings) == {
        "IGNORE_DRA_REQUESTS": "false",
        "RESERVED_ENIS": "0",
        "VM_MEMORY_OVERHEAD_PERCENT": "0",
    }


def test_feature_gates_carry_karpenters_names() -> None:
    assert (
        gates({"reserved_capacity": False, "node_repair": True})
        == "NodeRepair=true,ReservedCapacity=false"
    )
    assert gates({"node_class_cel": True}) == "NodeClassCEL=true"


@pytest.mark.parametrize(
    ("text", "expected"), [("1m", 60), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400)]
)
def test_go_durations_are_read(text: str, expected: float) -> None:
    assert expected == seconds(text)


def test_limits_reach_the_controller_as_plain_numbers() -> None:
    values = variables(plan(cpu_request="1.5", memory_limit="2Gi"))

    assert values["CPU_REQUESTS"] == "1500"
    assert str(2 * 2**30) == values["MEMORY_LIMIT"]


@pytest.mark.parametrize(
    ("text", "expected"), [("500m", 500), ("2", 2000), ("0.25", 250), ("0.1m", 1)]
)
def test_cpu_is_counted_in_thousandths_rounded_up(text: str, expected: int) -> None:
    assert expected == millicores(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("1Gi", 2**30), ("512Mi", 2**29), ("1G", 10**9), ("128", 128)]
)
def test_memory_is_counted_in_bytes(text: str, expected: int) -> None:
    assert expected == whole_bytes(text)


def test_a_quantity_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'1 GB' is no quantity; write it like"):
        whole_bytes("1 GB")


def test_servers_bind_to_the_pods_own_address() -> None:
    assert variables(plan())["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_the_certificate_names_the_service_first_and_nothing_twice() -> None:
    assert (
        webhook_hosts("ops", ["127.0.0.1", "karpenter.ops.svc"])
        == "karpenter.ops.svc,karpenter.ops.svc.cluster.local,karpenter.ops,127.0.0.1"
    )


def test_a_cluster_without_a_queue_passes_none() -> None:
    bare = PodPlan(namespace="karpenter", image="i", cluster_name="demo")

    assert {"INTERRUPTION_QUEUE", "CLUSTER_ENDPOINT"}.isdisjoint(variables(bare))


def test_the_deployment_starts_after_its_permissions(engine: Recorder, build: Build) -> None:
    build(lambda: Controller("ctl", arguments.controller()))

    deployment = engine.only(DEPLOYMENT)
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in engine.of_type(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}"):
            assert engine.comes_after(deployment, binding)
    assert engine.comes_after(deployment, engine.only("kubernetes:core/v1:ServiceAccount"))
    assert engine.comes_after(deployment, engine.only("kubernetes:core/v1:Namespace"))


def test_logs_are_found_by_karpenters_label(engine: Recorder, build: Build) -> None:
    build(lambda: Controller("ctl", arguments.controller()))

    template = engine.only(DEPLOYMENT).inputs["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "karpenter"
    assert engine.only(DEPLOYMENT).inputs["metadata"]["namespace"] == "karpenter"


def test_the_service_offers_metrics_and_the_webhook(engine: Recorder, build: Build) -> None:
    build(lambda: Controller("ctl", arguments.controller()))

    ports = engine.only("kubernetes:core/v1:Service").inputs["spec"]["ports"]
    assert {p["name"]: p["port"] for p in ports} == {"http-metrics": 8080, "webhook": 8443}


def test_with_irsa_the_service_account_names_the_role(engine: Recorder, build: Build) -> None:
    build(lambda: Controller("ctl", arguments.controller(role_arn="arn:aws:iam::1:role/c")))

    account = engine.only("kubernetes:core/v1:ServiceAccount").inputs["metadata"]
    assert account["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/c"}


def test_an_existing_namespace_is_left_alone(engine: Recorder, build: Build) -> None:
    build(lambda: Controller("ctl", arguments.controller(create_namespace=False)))

    assert engine.of_type("kubernetes:core/v1:Namespace") == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"image": " "}, "image is ' '; name an image, best by digest"),
        ({"replicas": 0}, "replicas is 0; use a number from 1 to 10"),
        ({"namespace": "Karpenter"}, "namespace is 'Karpenter'"),
        ({"image_pull_policy": "Often"}, "image_pull_policy is 'Often'; use one of"),
        ({"settings": {"log_level": "loud"}}, "settings.log_level is 'loud'; use one of"),
        ({"settings": {"loglevel": "info"}}, "loglevel is not an argument"),
        (
            {"settings": {"scheduler_config": "podTopologySpread: ["}},
            "settings.scheduler_config can't be read",
        ),
        (
            {"settings": {"scheduler_config": "/etc/scheduler.yaml"}},
            "settings.scheduler_config is '/etc/scheduler.yaml'; write a text with podTopologySpread",
        ),
        ({"settings": {"batch_idle_duration": "1"}}, "settings.batch_idle_duration is '1'"),
        ({"settings": {"ami_refresh_interval": "30s"}}, "ami_refresh_interval is 30s; use 1m"),
        ({"settings": {"vm_memory_overhead_percent": 7.5}}, "vm_memory_overhead_percent is 7.5"),
        (
            {"settings": {"disable_leader_election": True}},
            "settings.disable_leader_election is on with 2 replicas; set replicas to 1",
        ),
        ({"settings": {"feature_gates": {"drift": True}}}, "drift is not an argument"),
        ({"resources": {"memory_limit": "1 GB"}}, "resources.memory_limit is '1 GB'"),
        ({"resources": {"memory_request": "2Gi"}}, "memory_request 2Gi is more than the limit 1Gi"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(
    engine: Recorder, build: Build, args: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Controller 'ctl': .*{message}"):
        build(lambda: Controller("ctl", arguments.controller(**args)))
    assert engine.resources == []
