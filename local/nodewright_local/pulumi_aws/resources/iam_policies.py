"""IAM policies, what they are attached to, and OpenID Connect providers."""

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError, tag_list, tag_map
from nodewright_local.pulumi_aws.resources.iam_roles import policy_text, retag
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Property,
    Resource,
    Shape,
    output,
    policy,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_KEPT_VERSIONS = 5  # IAM keeps this many versions of a policy and refuses one more


class Policy(Resource):
    """`aws.iam.Policy`; the id is the ARN."""

    token = "aws:iam/policy:Policy"
    identity = ("name",)
    autoname = AutoName(max_length=128)
    properties = tagged(
        {
            "policy": policy(required=True),
            "name": text(replaces=True, computed=True),
            "namePrefix": text(replaces=True, write_only=True),
            "path": text(replaces=True, default="/"),
            "description": text(replaces=True),
            "arn": output(),
            "attachmentCount": output(Shape.NUMBER),
            "policyId": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the policy."""
        answer = aws.call(
            "iam",
            "create_policy",
            PolicyName=inputs["name"],
            PolicyDocument=inputs["policy"],
            Path=inputs["path"],
            Description=inputs.get("description"),
            Tags=tag_list(inputs.get("tags")),
        )
        return str(answer["Policy"]["Arn"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the policy and its default version."""
        answer = aws.find("iam", "get_policy", PolicyArn=ident)
        if answer is None:
            return None
        found = answer["Policy"]
        version = aws.call(
            "iam", "get_policy_version", PolicyArn=ident, VersionId=found["DefaultVersionId"]
        )
        return {
            "policy": policy_text(version["PolicyVersion"]["Document"]),
            "name": found["PolicyName"],
            "path": found.get("Path", "/"),
            "description": found.get("Description"),
            "tagsAll": tag_map(found.get("Tags")),
            "arn": ident,
            # Counts what others attach; reporting it live would show a change after every up.
            "attachmentCount": known.get("attachmentCount", found.get("AttachmentCount", 0)),
            "policyId": found["PolicyId"],
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Make a new default version, making room for it first."""
        versions = [item for item in self._versions(aws, ident) if not item["IsDefaultVersion"]]
        if len(versions) >= _KEPT_VERSIONS - 1:
            oldest = min(versions, key=lambda item: str(item["CreateDate"]))
            self._delete_version(aws, ident, oldest["VersionId"])
        aws.call(
            "iam",
            "create_policy_version",
            PolicyArn=ident,
            PolicyDocument=new["policy"],
            SetAsDefault=True,
        )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete all versions, then the policy."""
        for version in self._versions(aws, ident):
            if not version["IsDefaultVersion"]:
                self._delete_version(aws, ident, version["VersionId"])
        aws.persist(
            ("DeleteConflict",),
            lambda: aws.call("iam", "delete_policy", PolicyArn=ident),
            timeout_seconds=30,
        )

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        retag(aws, "policy", {"PolicyArn": ident}, put, drop)

    def _versions(self, aws: Aws, ident: str) -> list[Values]:
        return aws.pages("iam", "list_policy_versions", "Versions", PolicyArn=ident)

    def _delete_version(self, aws: Aws, ident: str, version: str) -> None:
        aws.call("iam", "delete_policy_version", PolicyArn=ident, VersionId=version)


class RolePolicy(Resource):
    """`aws.iam.RolePolicy`: a policy inside a role; the id is `role:name`."""

    token = "aws:iam/rolePolicy:RolePolicy"
    identity = ("role", "name")
    autoname = AutoName(max_length=128)
    properties: ClassVar[Mapping[str, Property]] = {
        "role": text(required=True, replaces=True),
        "policy": policy(required=True),
        "name": text(replaces=True, computed=True),
        "namePrefix": text(replaces=True, write_only=True),
    }

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Write the policy into the role."""
        self._put(aws, inputs)
        return f"{inputs['role']}:{inputs['name']}"

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the policy."""
        role, name = ident.split(":", 1)
        answer = aws.find("iam", "get_role_policy", RoleName=role, PolicyName=name)
        if answer is None:
            return None
        return {"role": role, "name": name, "policy": policy_text(answer["PolicyDocument"])}

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Overwrite the policy."""
        self._put(aws, new)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Remove the policy from the role."""
        role, name = ident.split(":", 1)
        aws.call("iam", "delete_role_policy", RoleName=role, PolicyName=name)

    def _put(self, aws: Aws, inputs: Values) -> None:
        aws.call(
            "iam",
            "put_role_policy",
            RoleName=inputs["role"],
            PolicyName=inputs["name"],
            PolicyDocument=inputs["policy"],
        )


class RolePolicyAttachment(Resource):
    """`aws.iam.RolePolicyAttachment`; the id is `role/policy ARN`."""

    token = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    identity = ("role", "policyArn")
    properties: ClassVar[Mapping[str, Property]] = {
        "role": text(required=True, replaces=True),
        "policyArn": text(required=True, replaces=True),
    }

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Attach the policy."""
        aws.call(
            "iam", "attach_role_policy", RoleName=inputs["role"], PolicyArn=inputs["policyArn"]
        )
        return f"{inputs['role']}/{inputs['policyArn']}"

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Look for the policy among those of the role."""
        role, arn = self._parts(ident)
        try:
            attached = aws.pages(
                "iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role
            )
        except AwsError as error:
            if error.is_absent:
                return None
            raise
        if arn not in (item["PolicyArn"] for item in attached):
            return None
        return {"role": role, "policyArn": arn}

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Detach the policy."""
        role, arn = self._parts(ident)
        aws.call("iam", "detach_role_policy", RoleName=role, PolicyArn=arn)

    def _parts(self, ident: str) -> tuple[str, str]:
        role, _, arn = ident.partition("/")
        return role, arn


class OpenIdConnectProvider(Resource):
    """`aws.iam.OpenIdConnectProvider`; the id is the ARN."""

    token = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
    identity = ("url",)
    properties = tagged(
        {
            "url": text(
                required=True,
                replaces=True,
                canonical=lambda url: str(url).removeprefix("https://"),
            ),
            "clientIdLists": texts(required=True),
            "thumbprintLists": texts(computed=True),
            "arn": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the provider."""
        answer = aws.call(
            "iam",
            "create_open_id_connect_provider",
            Url=inputs["url"],
            ClientIDList=inputs["clientIdLists"],
            ThumbprintList=inputs.get("thumbprintLists"),
            Tags=tag_list(inputs.get("tags")),
        )
        return str(answer["OpenIDConnectProviderArn"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the provider; IAM tells the URL without its scheme."""
        found = aws.find("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=ident)
        if found is None:
            return None
        return {
            "url": found["Url"],
            "clientIdLists": found.get("ClientIDList") or [],
            "thumbprintLists": found.get("ThumbprintList") or [],
            "tagsAll": tag_map(found.get("Tags")),
            "arn": ident,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change audiences and thumbprints."""
        before, after = set(old.get("clientIdLists") or []), set(new["clientIdLists"])
        for operation, clients in (
            ("add_client_id_to_open_id_connect_provider", after - before),
            ("remove_client_id_from_open_id_connect_provider", before - after),
        ):
            for client in sorted(clients):
                aws.call("iam", operation, OpenIDConnectProviderArn=ident, ClientID=client)
        if "thumbprintLists" in changed:
            aws.call(
                "iam",
                "update_open_id_connect_provider_thumbprint",
                OpenIDConnectProviderArn=ident,
                ThumbprintList=new["thumbprintLists"],
            )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the provider."""
        aws.call("iam", "delete_open_id_connect_provider", OpenIDConnectProviderArn=ident)

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        retag(aws, "open_id_connect_provider", {"OpenIDConnectProviderArn": ident}, put, drop)


RESOURCES: tuple[Resource, ...] = (
    Policy(),
    RolePolicy(),
    RolePolicyAttachment(),
    OpenIdConnectProvider(),
)
