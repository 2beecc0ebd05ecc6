"""When two JSON documents mean the same to AWS.

AWS hands policies back reordered and with one-element lists unwrapped. Comparing texts would show a
change on every preview, so policies are compared in a canonical form; other JSON by its value.
"""

import json
import re
from typing import Any

_ACCOUNT_ROOT = re.compile(r"^arn:[\w-]+:iam::(\d{12}):root$")
_LISTS = ("Action", "NotAction", "Resource", "NotResource")


def canonical_json(text: object) -> object:
    """Return the parsed document, or the text itself when it is not JSON."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        return text


def canonical_policy(text: object) -> object:
    """Return an IAM or resource policy so that two equal policies compare equal."""
    document = canonical_json(text)
    if not isinstance(document, dict) or "Statement" not in document:
        return document
    statements = [_statement(item) for item in _as_list(document["Statement"])]
    return {
        "Version": document.get("Version", "2008-10-17"),
        "Statement": sorted(statements, key=_sort_key),
        **({"Id": document["Id"]} if document.get("Id") else {}),
    }


def _statement(statement: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in statement.items() if value not in ("", None)}
    for key in _LISTS:
        if key in result:
            result[key] = sorted(map(str, _as_list(result[key])))
    for key in ("Principal", "NotPrincipal"):
        if key in result:
            result[key] = _principal(result[key])
    if "Condition" in result:
        result["Condition"] = {
            operator: {
                name: sorted(_text(item) for item in _as_list(value))
                for name, value in tests.items()
            }
            for operator, tests in result["Condition"].items()
        }
        if not result["Condition"]:
            del result["Condition"]
    return result


def _principal(principal: object) -> object:
    if principal == "*":
        return {"AWS": ["*"]}
    if not isinstance(principal, dict):
        return principal
    return {
        kind: sorted(_account(str(item)) for item in _as_list(value))
        for kind, value in principal.items()
    }


def _account(principal: str) -> str:
    match = _ACCOUNT_ROOT.match(principal)
    return match.group(1) if match else principal


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _sort_key(statement: object) -> str:
    return json.dumps(statement, sort_keys=True)
