"""A Pulumi engine that creates nothing and remembers everything, for component tests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks
from typing_extensions import override

REGION = "us-west-2"
ACCOUNT = "123456789012"
_FUNCTIONS: Mapping[str, dict[str, Any]] = {
    "aws:index/getPartition:getPartition": {"partition": "aws", "dnsSuffix": "amazonaws.com"},
    "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": ACCOUNT},
    "aws:index/getRegion:getRegion": {"region": REGION, "name": REGION},
    "aws:index/getAvailabilityZones:getAvailabilityZones": {
        "names": [f"{REGION}{letter}" for letter in "abcd"] + [f"{REGION}-lax-1a"],
        "zoneIds": ["usw2-az2", "usw2-az1", "usw2-az3", "usw2-az4", "usw2-lax1-az1"],
    },
}


@dataclass(kw_only=True)
class Recorded:
    """One resource as the engine saw it."""

    type: str
    name: str
    inputs: dict[str, Any]
    provider: str = ""
    urn: str = ""
    parent: str = ""
    dependencies: frozenset[str] = frozenset()
    protect: bool = False
    retain_on_delete: bool = False
    custom: bool = True
    ignore_changes: tuple[str, ...] = ()


@dataclass
class Recorder(Mocks):
    """Answers as AWS would, with inputs echoed as outputs."""

    resources: list[Recorded] = field(default_factory=list)
    transforms: list[Any] = field(default_factory=list)

    @override
    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        return dict(_FUNCTIONS[args.token]), []

    @override
    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.resources.append(
            Recorded(
                type=args.typ,
                name=args.name,
                inputs=args.inputs,
                provider=args.provider or "",
                custom=bool(args.custom),
            )
        )
        return f"{args.name}-id", {**args.inputs, **_computed(args)}

    @override
    def register_transform(self, transform: Any) -> None:
        self.transforms.append(transform)

    def of_type(self, type_: str) -> list[Recorded]:
        """Return the resources of a type, in the order of their names."""
        return sorted((r for r in self.resources if r.type == type_), key=lambda r: r.name)

    def named(self, type_: str, name: str) -> Recorded:
        """Return the one resource of this type and name."""
        found = [r for r in self.of_type(type_) if r.name == name]
        assert len(found) == 1, f"{type_} {name!r} is not among {[r.name for r in self.resources]}"
        return found[0]

    def only(self, type_: str) -> Recorded:
        """Return the one resource of this type."""
        found = self.of_type(type_)
        assert len(found) == 1, f"{len(found)} resources of type {type_}"
        return found[0]

    def comes_after(self, later: Recorded, earlier: Recorded) -> bool:
        """Tell whether `later` depends on `earlier`, directly or through others.

        As in the engine, a resource also depends on its parent and on its provider.
        """
        by_urn = {r.urn: r for r in self.resources}
        seen: set[str] = set()
        todo = [later.urn]
        while todo:
            urn = todo.pop()
            if urn in seen or urn not in by_urn:
                continue
            seen.add(urn)
            resource = by_urn[urn]
            todo += [*resource.dependencies, resource.parent]
            if resource.provider:
                todo.append(resource.provider.rpartition("::")[0])
        return earlier.urn in seen - {later.urn}


class RecordingMonitor(MockMonitor):
    """Adds to each recorded resource what only the request tells: order, parent, options."""

    mocks: Recorder

    @override
    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type == "pulumi:pulumi:Stack":
            return response
        # Requests come from several threads at once, so the last one recorded may be another's.
        resource = self.mocks.named(request.type, request.name)
        resource.urn = response.urn
        resource.parent = request.parent
        resource.dependencies = frozenset(request.dependencies)
        resource.protect = request.protect
        resource.retain_on_delete = request.retainOnDelete
        resource.ignore_changes = tuple(request.ignoreChanges)
        return response


def _computed(args: MockResourceArgs) -> dict[str, Any]:
    """Return what AWS would fill in."""
    service = args.typ.split(":")[1].split("/")[0]
    computed: dict[str, Any] = {}
    if args.typ.startswith("aws:"):
        computed["arn"] = f"arn:aws:{service}:{REGION}:{ACCOUNT}:{args.name}"
        computed["name"] = args.inputs.get("name", f"{args.name}-1234567")
    if args.typ == "aws:iam/role:Role":
        computed["arn"] = f"arn:aws:iam::{ACCOUNT}:role/{computed['name']}"
    if args.typ == "aws:sqs/queue:Queue":
        computed["arn"] = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{computed['name']}"
        computed["url"] = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{computed['name']}"
    if args.typ == "aws:eks/cluster:Cluster":
        computed |= _cluster(args)
    if args.typ == "aws:eks/accessEntry:AccessEntry":
        computed["accessEntryArn"] = f"arn:aws:eks:{REGION}:{ACCOUNT}:access-entry/{args.name}"
    if args.typ == "aws:ec2/eip:Eip":
        computed["publicIp"] = "203.0.113.9"
    return computed


def _cluster(args: MockResourceArgs) -> dict[str, Any]:
    return {
        "endpoint": "https://api.eks.example",
        "version": args.inputs.get("version", "1.36"),
        "certificateAuthority": {"data": "Q0E="},
        "identities": [{"oidcs": [{"issuer": "https://oidc.eks.example/id/ABC"}]}],
        "vpcConfig": {**args.inputs["vpcConfig"], "clusterSecurityGroupId": "sg-cluster"},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"},
    }


def value(output: pulumi.Output[Any]) -> Any:
    """Return what an output holds; call it after the program has settled."""
    future = output._data
    assert future.done(), "the output is not there yet"
    return future.result().value


def short_type(token: str) -> str:
    """Return the last part of a type token."""
    return re.split(r"[:/]", token)[-1]
