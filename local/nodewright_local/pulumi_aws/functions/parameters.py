"""SSM parameters."""

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.functions.base import Function, Result
from nodewright_local.pulumi_aws.schema import Property, flag, text
from nodewright_local.pulumi_aws.values import Values


class GetParameter(Function):
    """`aws.ssm.get_parameter`; the value is secret, as in the real provider."""

    token = "aws:ssm/getParameter:getParameter"
    inputs: ClassVar[Mapping[str, Property]] = {
        "name": text(required=True),
        "region": text(),
        "withDecryption": flag(),
    }

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Read the parameter."""
        decrypt = args.get("withDecryption", True)
        found = aws.call("ssm", "get_parameter", Name=args["name"], WithDecryption=decrypt)[
            "Parameter"
        ]
        plain = found["Type"] != "SecureString"
        return Result(
            values={
                "id": found["Name"],
                "name": found["Name"],
                "region": aws.region,
                "arn": found.get("ARN"),
                "type": found["Type"],
                "value": found["Value"],
                "insecureValue": found["Value"] if plain else "",
                "version": found.get("Version", 1),
                "withDecryption": decrypt,
            },
            secrets=frozenset({"value"}),
        )


FUNCTIONS: tuple[Function, ...] = (GetParameter(),)
