"""Settings: Karpenter's names and defaults, flags over environment, and errors that list everything."""

from __future__ import annotations

from datetime import timedelta

import pytest
from nodewright_controller.settings import FEATURE_GATES, Settings, SettingsError


def test_the_defaults_are_karpenters() -> None:
    settings = Settings.load([], {"CLUSTER_NAME": "prod"})

    assert settings.metrics_port == 8080
    assert settings.health_probe_port == 8081
    assert settings.batch_idle_duration == timedelta(seconds=1)
    assert settings.batch_max_duration == timedelta(seconds=10)
    assert settings.vm_memory_overhead_percent == 0.075
    assert settings.leader_election_name == "karpenter-leader-election"
    assert settings.feature_gates == FEATURE_GATES


def test_a_flag_beats_the_environment() -> None:
    settings = Settings.load(
        ["--cluster-name=flag", "--batch-max-duration", "30s"], {"CLUSTER_NAME": "environment"}
    )

    assert settings.cluster_name == "flag"
    assert settings.batch_max_duration == timedelta(seconds=30)


def test_a_partial_list_of_gates_keeps_the_other_defaults() -> None:
    settings = Settings.load(
        [], {"CLUSTER_NAME": "c", "FEATURE_GATES": "NodeRepair=true,Unknown=true"}
    )

    assert settings.feature_gates["NodeRepair"]
    assert settings.feature_gates["ReservedCapacity"]
    assert "Unknown" not in settings.feature_gates


def test_a_number_in_the_environment_that_cannot_be_read_falls_back() -> None:
    assert Settings.load([], {"CLUSTER_NAME": "c", "METRICS_PORT": "many"}).metrics_port == 8080


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(
            ["--batch-idle-duration=soon"],
            {
                "CLUSTER_ENDPOINT": "not a url",
                "PREFERENCE_POLICY": "Maybe",
                "ISOLATED_VPC": "yes",
                "FEATURE_GATES": "NodeRepair=on",
                "AMI_REFRESH_INTERVAL": "1s",
            },
        )

    text = str(caught.value)
    for name in (
        "CLUSTER_NAME",
        "CLUSTER_ENDPOINT",
        "PREFERENCE_POLICY",
        "ISOLATED_VPC",
        "FEATURE_GATES",
        "AMI_REFRESH_INTERVAL",
        "BATCH_IDLE_DURATION",
    ):
        assert name in text


def test_the_lease_lives_in_its_own_namespace_or_in_the_system_namespace() -> None:
    base = {"CLUSTER_NAME": "c", "SYSTEM_NAMESPACE": "karpenter"}

    assert Settings.load([], base).lease_namespace == "karpenter"
    assert Settings.load([], {**base, "LEADER_ELECTION_NAMESPACE": "x"}).lease_namespace == "x"


def test_the_schedulers_configuration_is_read_from_the_setting_itself() -> None:
    text = """
    podTopologySpread:
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
    """

    settings = Settings.load([], {"CLUSTER_NAME": "c", "SCHEDULER_CONFIG": text})

    assert settings.default_spreads
    assert not Settings.load([], {"CLUSTER_NAME": "c"}).default_spreads


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("podTopologySpread: [", "SCHEDULER_CONFIG: is neither YAML nor JSON"),
        (
            "{podTopologySpread: {more: 1}}",
            "SCHEDULER_CONFIG: podTopologySpread.more: is not known",
        ),
        ("/etc/scheduler.yaml", "SCHEDULER_CONFIG: '/etc/scheduler.yaml' is no map"),
    ],
)
def test_a_schedulers_configuration_that_cannot_be_used_is_refused_at_start(
    text: str, said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load([f"--scheduler-config={text}"], {"CLUSTER_NAME": "c"})

    assert said in str(caught.value)
