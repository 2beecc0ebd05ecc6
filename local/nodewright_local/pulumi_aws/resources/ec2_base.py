"""What the EC2 handlers share: tags by resource id, and one item out of a describe call."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, tag_list
from nodewright_local.pulumi_aws.schema import Resource
from nodewright_local.pulumi_aws.values import Values


class Ec2Resource(Resource):
    """A resource whose id is what EC2's tag calls take."""

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        if drop:
            aws.call("ec2", "delete_tags", Resources=[ident], Tags=[{"Key": key} for key in drop])
        if put:
            aws.call("ec2", "create_tags", Resources=[ident], Tags=tag_list(put))


def tag_specifications(kind: str, inputs: Values) -> list[dict[str, Any]] | None:
    """Return the TagSpecifications of a create call, None without tags."""
    tags = tag_list(inputs.get("tags"))
    return [{"ResourceType": kind, "Tags": tags}] if tags else None


def first(answer: dict[str, Any] | None, key: str) -> dict[str, Any] | None:
    """Return the first item of a describe answer, None when there is none."""
    items = (answer or {}).get(key) or []
    return dict(items[0]) if items else None
