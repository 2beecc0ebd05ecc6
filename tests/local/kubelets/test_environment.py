"""The environment of a container: order, references, expansion, downward API."""

from typing import Any

import pytest
from nodewright_local.kubelets.pods.environment import (
    ConfigurationError,
    Sources,
    command_line,
    compose,
    expand,
    pod_field,
    references,
)

POD = {
    "metadata": {
        "name": "karpenter-1",
        "namespace": "karpenter",
        "uid": "u-1",
        "labels": {"app.kubernetes.io/name": "karpenter"},
        "annotations": {},
    },
    "spec": {"nodeName": "node-1", "serviceAccountName": "karpenter"},
    "status": {
        "podIP": "127.20.0.1",
        "podIPs": [{"ip": "127.20.0.1"}],
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
    },
}
SOURCES = Sources(
    pod=POD,
    data={
        ("configmaps", "settings"): {"LEVEL": "debug", "SIZE": "1"},
        ("secrets", "password"): {"key": "hunter2"},
    },
    allocatable={"cpu": "1930m", "memory": "7Gi"},
)


def environment(*variables: dict[str, Any], **container: Any) -> dict[str, str]:
    return compose({"env": list(variables), **container}, SOURCES, {"PATH": "/bin"})


def test_the_containers_own_variables_win_over_env_from_and_the_platform() -> None:
    found = environment(
        {"name": "LEVEL", "value": "info"},
        {"name": "PATH", "value": "/opt"},
        envFrom=[{"configMapRef": {"name": "settings"}}],
    )

    assert found == {"PATH": "/opt", "LEVEL": "info", "SIZE": "1"}


def test_env_from_takes_a_prefix_and_both_kinds() -> None:
    sources = [
        {"configMapRef": {"name": "settings"}, "prefix": "C_"},
        {"secretRef": {"name": "password"}},
    ]

    assert environment(envFrom=sources) == {
        "PATH": "/bin",
        "C_LEVEL": "debug",
        "C_SIZE": "1",
        "key": "hunter2",
    }


def test_a_value_refers_to_variables_before_it() -> None:
    found = environment(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(LATER)-$$(A)"},
        {"name": "LATER", "value": "2"},
    )

    assert found["B"] == "1-$(LATER)-$(A)"


@pytest.mark.parametrize(
    ("text", "result"),
    [("$(A)", "1"), ("$$(A)", "$(A)"), ("$(NO)", "$(NO)"), ("$A", "$A"), ("$(A)$(A)", "11")],
)
def test_references_expand_in_the_kubernetes_way(text: str, result: str) -> None:
    assert expand(text, {"A": "1"}) == result


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "karpenter-1"),
        ("metadata.namespace", "karpenter"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.kubernetes.io/name']", "karpenter"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "karpenter"),
        ("status.podIP", "127.20.0.1"),
        ("status.podIPs", "127.20.0.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod_are_given(path: str, value: str) -> None:
    assert pod_field(POD, path) == value


def test_an_unknown_field_path_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"spec\.hostname"):
        environment({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}})


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.memory", None, str(2**30)),
        ("limits.memory", "1Mi", "1024"),
        ("requests.cpu", None, "2"),
        ("requests.cpu", "1m", "1500"),
        ("requests.cpu", "0", "2"),
        ("requests.memory", None, "0"),
        ("limits.cpu", "1m", "1930"),
    ],
)
def test_resources_are_divided_and_rounded_up(
    resource: str, divisor: str | None, value: str
) -> None:
    reference = {"resource": resource} | ({"divisor": divisor} if divisor else {})
    resources = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1500m"}}

    found = environment(
        {"name": "A", "valueFrom": {"resourceFieldRef": reference}}, resources=resources
    )

    assert found["A"] == value


def test_secrets_and_config_maps_give_single_keys() -> None:
    found = environment(
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "password", "key": "key"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "SIZE"}}},
    )

    assert (found["A"], found["B"]) == ("hunter2", "1")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"name": "none", "key": "x"}, "secret 'none' not found"),
        ({"name": "password", "key": "x"}, "couldn't find key x in secret 'password'"),
    ],
)
def test_a_missing_reference_is_an_error_unless_it_is_optional(
    reference: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        environment({"name": "A", "valueFrom": {"secretKeyRef": reference}})

    optional = {"secretKeyRef": {**reference, "optional": True}}
    assert "A" not in environment({"name": "A", "valueFrom": optional})


def test_a_missing_whole_source_is_an_error_unless_it_is_optional() -> None:
    with pytest.raises(ConfigurationError, match="configmap 'none' not found"):
        environment(envFrom=[{"configMapRef": {"name": "none"}}])

    assert environment(envFrom=[{"secretRef": {"name": "none", "optional": True}}]) == {
        "PATH": "/bin"
    }


def test_all_references_are_found_before_anything_is_read() -> None:
    container = {
        "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}],
        "env": [
            {"name": "X", "value": "1"},
            {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
            {"name": "Z", "valueFrom": {"configMapKeyRef": {"name": "d", "key": "k"}}},
        ],
    }

    assert list(references(container)) == [
        ("secrets", "a"),
        ("configmaps", "b"),
        ("secrets", "c"),
        ("configmaps", "d"),
    ]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({}, ["/bin/entry"]),
        ({"args": ["--x=$(A)"]}, ["/bin/entry", "--x=1"]),
        ({"command": ["sh", "-c"]}, ["sh", "-c"]),
        ({"command": ["sh"], "args": ["$(B)"]}, ["sh", "$(B)"]),
    ],
)
def test_command_replaces_the_entrypoint_and_args_follow(
    container: dict[str, Any], words: list[str]
) -> None:
    assert command_line(container, "/bin/entry", {"A": "1"}) == words
