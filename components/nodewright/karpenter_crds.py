"""KarpenterCRDs: the kinds NodePool, NodeClaim and EC2NodeClass.

A component of its own, because deleting a CRD deletes every object of its kind and thereby every
node: it outlives a controller that is taken down for repair.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as k8s

from nodewright.controller_pod import NAME, WEBHOOK_PORT
from nodewright.crd_manifests import service_client, shipped_crds, url_client, with_conversion
from nodewright.validation import Check


class KarpenterCRDsArgs(TypedDict):
    """Arguments of KarpenterCRDs."""

    webhook_url: NotRequired[pulumi.Input[str]]
    """Address at which the API server reaches the conversion webhook, such as
    `https://198.51.100.7:8443/convert`. Default: the Service `karpenter`."""
    webhook_namespace: NotRequired[str]
    """Namespace of that Service. Default `karpenter`."""
    retain_on_delete: NotRequired[bool]
    """Whether the CRDs, and so all nodes, stay when this component goes. Default true."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of the CRDs."""


class KarpenterCRDs(pulumi.ComponentResource):
    """The CustomResourceDefinitions that the controller serves."""

    crd_names: pulumi.Output[Sequence[str]]
    """Names of the CRDs; whoever uses them waits until the API server serves the kinds."""

    def __init__(
        self, name: str, args: KarpenterCRDsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_args(name, args)
        super().__init__("nodewright:index:KarpenterCRDs", name, None, opts)
        url = args.get("webhook_url")
        client: dict[str, Any] = (
            service_client(args.get("webhook_namespace", "karpenter"), NAME, WEBHOOK_PORT)
            if url is None
            else url_client(url)  # type: ignore[arg-type]
        )
        made = [
            self._crd(f"{name}-{crd_name}", with_conversion(crd, client), args)
            for crd_name, crd in shipped_crds().items()
        ]
        self.crd_names = pulumi.Output.all(*(crd.id for crd in made))
        self.register_outputs({"crdNames": self.crd_names})

    def _crd(
        self, name: str, crd: dict[str, Any], args: KarpenterCRDsArgs
    ) -> k8s.apiextensions.CustomResource:
        metadata = {**crd["metadata"]}
        annotations = {**metadata.get("annotations", {}), **args.get("annotations", {})}
        if annotations:
            metadata["annotations"] = annotations
        # The general resource sends the schema as it stands; the typed one would take property
        # names of the schema for its own and rewrite them.
        return k8s.apiextensions.CustomResource(
            name,
            api_version=crd["apiVersion"],
            kind=crd["kind"],
            metadata=metadata,
            spec=crd["spec"],
            opts=pulumi.ResourceOptions(
                parent=self,
                retain_on_delete=args.get("retain_on_delete", True),
                ignore_changes=["spec.conversion.webhook.clientConfig.caBundle"],
            ),
        )


def check_args(name: str, args: KarpenterCRDsArgs) -> None:
    """Raise `InvalidArgumentError` for arguments that can't work; makes nothing."""
    check = Check("KarpenterCRDs", name)
    check.known_fields(args, KarpenterCRDsArgs)
    check.matches(
        "webhook_url",
        args.get("webhook_url"),
        r"https://[^/\s]+/\S+",
        "https://198.51.100.7:8443/convert",
    )
    if args.get("webhook_url") is not None and "webhook_namespace" in args:
        raise check.refuse(
            "webhook_namespace", "is given beside webhook_url", "keep one of the two"
        )
