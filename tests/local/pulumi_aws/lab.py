"""Takes resources through their lives as the engine would, without engine and without wire."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from nodewright_local.pulumi_aws import lifecycle, registry
from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.checks import DEFAULTS_KEY, check
from nodewright_local.pulumi_aws.diff import Change
from nodewright_local.pulumi_aws.lifecycle import Live
from nodewright_local.pulumi_aws.names import Naming
from nodewright_local.pulumi_aws.values import Values

ASSUME_ROLE = (
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",'
    '"Principal":{"Service":["ec2.amazonaws.com","eks.amazonaws.com"]}}]}'
)


_SEEDS = itertools.count()


@dataclass
class Lab:
    """Makes resources and remembers them, so that a test leaves nothing behind."""

    aws: Aws
    made: list[tuple[str, Live]] = field(default_factory=list)
    clusters: list[Live] = field(default_factory=list)
    """A cluster that several tests share, once one of them asked for it."""

    def checked(self, token: str, inputs: Values, olds: Values | None = None) -> Values:
        """Return the inputs as Check leaves them; fails on any failure."""
        naming = Naming(logical_name="thing", seed=str(next(_SEEDS)).encode())
        result = check(registry.resource(token), inputs, olds or {}, naming)
        assert result.failures == ()
        return result.inputs

    def make(self, token: str, inputs: Values) -> Live:
        """Create a resource."""
        live = lifecycle.create(registry.resource(token), self.aws, self.checked(token, inputs))
        self.made.append((token, live))
        return live

    def changes(self, token: str, live: Live, inputs: Values) -> tuple[Change, ...]:
        """Return what a program with these inputs would change."""
        checked = self.checked(token, inputs, live.inputs)
        return lifecycle.plan_changes(
            registry.resource(token), live.state, _bare(checked), self.aws.settings.default_tags
        )

    def update(self, token: str, live: Live, inputs: Values) -> Live:
        """Update in place."""
        checked = self.checked(token, inputs, live.inputs)
        state = lifecycle.update(
            registry.resource(token), self.aws, live.ident, live.state, _bare(checked)
        )
        return Live(ident=live.ident, state=state, inputs=checked)

    def read(self, token: str, live: Live) -> Live | None:
        """Refresh."""
        return lifecycle.read(
            registry.resource(token), self.aws, live.ident, live.state, live.inputs
        )

    def import_(self, token: str, ident: str) -> Live | None:
        """Read by id alone."""
        return lifecycle.read(registry.resource(token), self.aws, ident, {}, None)

    def delete(self, token: str, live: Live) -> None:
        """Delete."""
        lifecycle.delete(registry.resource(token), self.aws, live.ident, live.state)

    def clear(self) -> None:
        """Delete everything that was made, newest first."""
        for token, live in reversed(self.made):
            self.delete(token, live)
        self.made.clear()

    def vpc(self, **inputs: Any) -> Live:
        """Make a VPC."""
        return self.make("aws:ec2/vpc:Vpc", {"cidrBlock": "10.1.0.0/16", **inputs})

    def subnets(self, vpc: Live) -> list[Live]:
        """Make two subnets in two zones."""
        return [
            self.make(
                "aws:ec2/subnet:Subnet",
                {
                    "vpcId": vpc.ident,
                    "cidrBlock": f"10.1.{index}.0/24",
                    "availabilityZone": f"us-west-2{'ab'[index]}",
                },
            )
            for index in (0, 1)
        ]

    def role(self, **inputs: Any) -> Live:
        """Make a role that EC2 and EKS may assume."""
        return self.make("aws:iam/role:Role", {"assumeRolePolicy": ASSUME_ROLE, **inputs})

    def cluster(self) -> Live:
        """Return an EKS cluster with its own network and role, shared with other tests."""
        if not self.clusters:
            maker = Lab(aws=self.aws)
            subnets = maker.subnets(maker.vpc())
            live = maker.make(
                "aws:eks/cluster:Cluster",
                {
                    "roleArn": maker.role().state["arn"],
                    "vpcConfig": {"subnetIds": [subnet.ident for subnet in subnets]},
                    "accessConfig": {"authenticationMode": "API"},
                },
            )
            self.clusters.append(live)
        return self.clusters[0]


def _bare(inputs: Values) -> Values:
    return {name: value for name, value in inputs.items() if name != DEFAULTS_KEY}
