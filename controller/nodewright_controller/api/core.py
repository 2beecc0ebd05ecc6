"""The few objects beside pods and nodes that the controller keeps itself: Secrets and CRDs."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, Struct


class Secret(KubeObject):
    """A Secret; the values of `data` are base64, as on the wire."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Secret", "secrets", True)

    type: str = ""
    data: dict[str, str] | None = None


class WebhookClientConfig(Struct):
    """Where the API server finds a webhook; `ca_bundle` is base64 of PEM."""

    url: str | None = None
    ca_bundle: str = ""


class WebhookConversion(Struct):
    """How a conversion webhook is called."""

    client_config: WebhookClientConfig = msgspec.field(default_factory=WebhookClientConfig)


class CustomResourceConversion(Struct):
    """How objects get from one version to another."""

    strategy: str = "None"
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionSpec(Struct):
    """The part of a definition that the controller looks after."""

    conversion: CustomResourceConversion | None = None


class CustomResourceDefinition(KubeObject):
    """A CustomResourceDefinition as far as its conversion goes."""

    KIND: ClassVar[Kind] = Kind(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
    )

    spec: CustomResourceDefinitionSpec = msgspec.field(default_factory=CustomResourceDefinitionSpec)
