"""IAM policy documents, computed without asking AWS.

Upstream counterpart: the `aws_iam_policy_document` data source; statements come out in its layout.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.functions.base import Function, Result
from nodewright_local.pulumi_aws.schema import Property, Shape, records, text, texts
from nodewright_local.pulumi_aws.values import Values

_ENTITY = {"type": text(required=True), "identifiers": texts(required=True)}
_CONDITION = {
    "test": text(required=True),
    "variable": text(required=True),
    "values": Property(shape=Shape.LIST, required=True),
}
_STATEMENT = {
    "sid": text(),
    "effect": text(choices=("Allow", "Deny")),
    "actions": texts(),
    "notActions": texts(),
    "resources": texts(),
    "notResources": texts(),
    "principals": records(_ENTITY),
    "notPrincipals": records(_ENTITY),
    "conditions": records(_CONDITION),
}
_LISTS = {
    "actions": "Action",
    "notActions": "NotAction",
    "resources": "Resource",
    "notResources": "NotResource",
}


class GetPolicyDocument(Function):
    """`aws.iam.get_policy_document`."""

    token = "aws:iam/getPolicyDocument:getPolicyDocument"
    inputs: ClassVar[Mapping[str, Property]] = {
        "policyId": text(),
        "version": text(choices=("2008-10-17", "2012-10-17")),
        "sourceJson": text(),
        "sourcePolicyDocuments": Property(shape=Shape.LIST),
        "overrideJson": text(),
        "overridePolicyDocuments": Property(shape=Shape.LIST),
        "statements": records(_STATEMENT),
    }

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Merge sources, own statements and overrides; later statements win by their sid."""
        sources = [args.get("sourceJson"), *(args.get("sourcePolicyDocuments") or [])]
        overrides = [args.get("overrideJson"), *(args.get("overridePolicyDocuments") or [])]
        statements: list[dict[str, Any]] = []
        for source in filter(None, sources):
            statements += _statements(source)
        statements = _merge(statements, [_render(item) for item in args.get("statements") or []])
        for document_text in filter(None, overrides):
            statements = _merge(statements, _statements(document_text))
        document: dict[str, Any] = {"Version": args.get("version", "2012-10-17")}
        if args.get("policyId"):
            document["Id"] = args["policyId"]
        document["Statement"] = statements
        return Result(
            values={
                **args,
                "id": str(zlib.crc32(json.dumps(document).encode())),
                "version": document["Version"],
                "json": json.dumps(document, indent=2),
                "minifiedJson": json.dumps(document, separators=(",", ":")),
            }
        )


def _render(statement: Values) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if statement.get("sid"):
        result["Sid"] = statement["sid"]
    result["Effect"] = statement.get("effect", "Allow")
    for name, key in _LISTS.items():
        if statement.get(name):
            result[key] = _one_or_many(sorted(statement[name], reverse=True))
    for name, key in (("principals", "Principal"), ("notPrincipals", "NotPrincipal")):
        if statement.get(name):
            result[key] = _principals(statement[name])
    if statement.get("conditions"):
        conditions: dict[str, dict[str, Any]] = {}
        for condition in statement["conditions"]:
            tests = conditions.setdefault(condition["test"], {})
            earlier = tests.get(condition["variable"], [])
            before = earlier if isinstance(earlier, list) else [earlier]
            tests[condition["variable"]] = _one_or_many([*before, *condition["values"]])
        result["Condition"] = conditions
    return result


def _principals(principals: list[Values]) -> Any:
    merged: dict[str, list[str]] = {}
    for principal in principals:
        merged.setdefault(principal["type"], []).extend(principal["identifiers"])
    if merged == {"*": ["*"]}:
        return "*"
    return {kind: _one_or_many(sorted(set(items))) for kind, items in merged.items()}


def _one_or_many(items: list[str]) -> Any:
    return items[0] if len(items) == 1 else items


def _statements(document: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(document).get("Statement", [])
    except (ValueError, AttributeError) as error:
        raise AwsError(
            operation=GetPolicyDocument.token,
            code="MalformedPolicyDocument",
            message=f"a source or override document is not a JSON policy: {error}",
        ) from error
    return found if isinstance(found, list) else [found]


def _merge(base: list[dict[str, Any]], extra: list[dict[str, Any]]) -> list[dict[str, Any]]:
    replaced = {item["Sid"]: item for item in extra if item.get("Sid")}
    kept = [replaced.pop(str(item.get("Sid")), item) for item in base]
    added = [item for item in extra if not item.get("Sid") or item["Sid"] in replaced]
    return kept + added


FUNCTIONS: tuple[Function, ...] = (GetPolicyDocument(),)
