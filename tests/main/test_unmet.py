"""A setting that asks for what is not there yet is named at start, with the way out."""

from __future__ import annotations

import pytest
from nodewright_controller.main.unmet import tell_unmet, unmet
from nodewright_controller.settings import AWS_FEATURE_GATES, FEATURE_GATES, Settings
from structlog.testing import capture_logs

HONOURED = {"NodeOverlay", "ReservedCapacity"}


def loaded(**environ: str) -> Settings:
    return Settings.load([], {"CLUSTER_NAME": "c", **environ})


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {
            "IGNORE_DRA_REQUESTS": "true",
            "FEATURE_GATES": "NodeOverlay=true,ReservedCapacity=false,NodeRepair=false",
            "AWS_FEATURE_GATES": "NodeClassCEL=false,DRAEFA=false",
            "KUBE_CLIENT_QPS": "200",
            "KUBE_CLIENT_BURST": "300",
            "LOG_OUTPUT_PATHS": "stdout",
            "LOG_ERROR_OUTPUT_PATHS": "stderr",
            "ENABLE_ZONAL_SHIFT": "false",
            "CPU_REQUESTS": "4000",
            "MEMORY_LIMIT": "1073741824",
        },
    ],
)
def test_defaults_and_settings_that_are_honoured_are_not_mentioned(
    environ: dict[str, str],
) -> None:
    assert unmet(loaded(**environ)) == ()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("IGNORE_DRA_REQUESTS", "false"),
        ("ENABLE_ZONAL_SHIFT", "true"),
        ("LEGACY_NODE_REPAIR", "true"),
        ("ENABLE_PROFILING", "true"),
        ("DISABLE_CLUSTER_STATE_OBSERVABILITY", "true"),
        ("KUBE_CLIENT_QPS", "50"),
        ("KUBE_CLIENT_BURST", "50"),
        ("LOG_OUTPUT_PATHS", "/var/log/karpenter.log"),
        ("LOG_ERROR_OUTPUT_PATHS", "/var/log/errors.log"),
        *(("FEATURE_GATES", f"{gate}=true") for gate in FEATURE_GATES if gate not in HONOURED),
        *(("AWS_FEATURE_GATES", f"{gate}=true") for gate in AWS_FEATURE_GATES),
    ],
)
def test_a_setting_without_its_effect_is_named_with_its_value_and_the_way_out(
    setting: str, value: str
) -> None:
    (found,) = unmet(loaded(**{setting: value}))

    assert (found.setting, found.value) == (setting, value)
    assert found.missing
    assert found.way_out


def test_the_log_says_it_at_start() -> None:
    with capture_logs() as logs:
        tell_unmet(loaded(IGNORE_DRA_REQUESTS="false", AWS_FEATURE_GATES="DRAEFA=true"))

    assert {entry["event"] for entry in logs} == {"setting has no effect yet"}
    assert {entry["log_level"] for entry in logs} == {"warning"}
    assert [entry["setting"] for entry in logs] == ["AWS_FEATURE_GATES", "IGNORE_DRA_REQUESTS"]
    assert "P110" in logs[1]["missing"]
    assert "as resources" in logs[1]["help"]
