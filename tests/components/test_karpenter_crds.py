"""The CRDs and the webhook they point at."""

from typing import Any

import pytest
from nodewright.controller_rbac import CONVERTED_CRDS
from nodewright.crd_manifests import service_client, shipped_crds, url_client, with_conversion
from nodewright.karpenter_crds import KarpenterCRDs, KarpenterCRDsArgs
from nodewright.validation import InvalidArgumentError
from nodewright_templates import crds

from tests.components.conftest import Build
from tests.components.recorder import Recorder

CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
URL = "https://127.0.0.1:9443/convert"


def client_of(crd: dict[str, Any]) -> Any:
    return crd["spec"]["conversion"]["webhook"]["clientConfig"]


def test_the_definitions_that_convert_are_those_the_controller_may_patch() -> None:
    several = {name for name, crd in crds.load().items() if len(crd["spec"]["versions"]) > 1}

    assert several == set(CONVERTED_CRDS)


def test_conversion_is_pointed_at_the_given_client_and_the_schema_is_kept() -> None:
    shipped = shipped_crds()["nodepools.karpenter.sh"]
    made = with_conversion(shipped, url_client(URL))

    assert client_of(made) == {"url": URL}
    assert shipped["spec"]["versions"] == made["spec"]["versions"]


def test_a_definition_with_one_version_needs_no_webhook() -> None:
    one = {"spec": {"versions": [{"name": "v1alpha1"}]}}

    assert one == with_conversion(one, service_client("karpenter", "karpenter", 8443))


def test_by_default_the_service_is_called_and_the_controller_keeps_the_certificate(
    engine: Recorder, build: Build
) -> None:
    build(lambda: KarpenterCRDs("crds", {}))

    crd = engine.named(CRD, "crds-nodepools.karpenter.sh")
    assert client_of(crd.inputs) == {
        "service": {
            "namespace": "karpenter",
            "name": "karpenter",
            "port": 8443,
            "path": "/convert",
        }
    }
    assert crd.ignore_changes == ("spec.conversion.webhook.clientConfig.caBundle",)


def test_every_shipped_definition_is_applied_as_it_stands(engine: Recorder, build: Build) -> None:
    build(lambda: KarpenterCRDs("crds", {"webhook_url": URL}))

    shipped = shipped_crds()
    assert len(shipped) == len(engine.of_type(CRD))
    for name, crd in shipped.items():
        applied = engine.named(CRD, f"crds-{name}").inputs
        assert crd["metadata"]["name"] == applied["metadata"]["name"]
        assert crd["spec"]["versions"] == applied["spec"]["versions"]
        assert crd["spec"]["names"] == applied["spec"]["names"]


@pytest.mark.parametrize("retain", [True, False])
def test_definitions_outlive_the_component_unless_told_otherwise(
    engine: Recorder, build: Build, retain: bool
) -> None:
    args: KarpenterCRDsArgs = {} if retain else {"retain_on_delete": False}
    build(lambda: KarpenterCRDs("crds", args))

    assert {retain} == {crd.retain_on_delete for crd in engine.of_type(CRD)}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"webhook_url": "http://127.0.0.1/convert"}, "webhook_url is 'http://127.0.0.1/convert'"),
        ({"webhook_url": URL, "webhook_namespace": "x"}, "webhook_namespace is given beside"),
    ],
)
def test_bad_arguments_are_refused(engine: Recorder, build: Build, args: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"KarpenterCRDs 'crds': {message}"):
        build(lambda: KarpenterCRDs("crds", args))
    assert engine.resources == []
