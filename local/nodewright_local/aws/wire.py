"""From an HTTP request to an AWS call, and from a result to the HTTP answer its SDK expects.

Service, region and caller come from the SigV4 credential scope, the operation from the protocol
(`Action`, `X-Amz-Target` or the REST path). Parsing and serialising follow botocore's service
models through moto's codec, so every protocol that boto3 speaks is covered by the same few lines.
"""

import re
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError
from moto.core.exceptions import ServiceException
from moto.core.model import OperationModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import HTTPException

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
_SIGNING_NAMES = {"eventbridge": "events"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Who signed a request, for which region and service."""

    access_key: str
    region: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One parsed AWS API call."""

    service: str
    """botocore's service name: `ec2`, `eks`, `iam`."""
    operation: str
    region: str
    access_key: str
    params: dict[str, Any]
    """The request as boto3 would have been given it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finished HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    error_code: str | None = None
    """The AWS error code when the answer is an error."""


def scope_of(request: Request) -> Scope | None:
    """Read the credential scope from the Authorization header or a presigned query; None if unsigned."""
    header = request.headers.get("Authorization", "")
    presigned = request.args.get("X-Amz-Credential", "")
    match = _CREDENTIAL.search(header) or _CREDENTIAL.search(f"Credential={presigned}")
    if match is None:
        return None
    access_key, _, region, service = match.groups()
    service = service.lower()
    return Scope(access_key=access_key, region=region, service=_SIGNING_NAMES.get(service, service))


def read_call(request: Request, scope: Scope) -> Call | None:
    """Parse a signed request; None when its service or operation is not in botocore's models."""
    found = _operation(request, scope.service)
    if found is None:
        return None
    model, uri_params = found
    protocol = determine_request_protocol(model.service_model, request.content_type)
    parser = PROTOCOL_PARSERS[protocol](model)
    params = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.get_data(),
            "url_path": request.path,
            "url_params": uri_params,
        }
    )
    return Call(
        service=scope.service,
        operation=str(model.name),
        region=scope.region,
        access_key=scope.access_key,
        params=params,
    )


def _operation(request: Request, service: str) -> tuple[OperationModel, dict[str, Any]] | None:
    try:
        model = get_service_model(service)
        target = request.headers.get("X-Amz-Target")
        action = target.split(".")[-1] if target else request.values.get("Action")
        if action:
            return model.operation_model(action), {}
        return get_service_router(service).match(request)
    except (UnknownServiceError, OperationNotFoundError, HTTPException, NotImplementedError):
        return None


def write_answer(call: Call, request: Request, result: object) -> Answer:
    """Serialise a result, or an AwsError, in the protocol the caller speaks."""
    service_model = get_service_model(call.service)
    operation = service_model.operation_model(call.operation)
    protocol = determine_request_protocol(service_model, request.content_type)
    serializer = get_serializer_class(call.service, protocol)(operation_model=operation)
    answer = serializer.serialize(result)
    body = answer["body"]
    headers = {name: str(value) for name, value in answer["headers"].items()}
    headers["x-amzn-RequestId"] = serializer.context.request_id
    return Answer(
        status=answer["status_code"],
        headers=headers,
        body=body.encode() if isinstance(body, str) else body,
        error_code=result.code if isinstance(result, ServiceException) else None,
    )


_XML_CODE = re.compile(rb"<Code>([^<]+)</Code>")
_JSON_CODE = re.compile(rb'"(?:__type|code)":\s*"([^"]+)"')


def error_code_in(status: int, headers: dict[str, str], body: bytes) -> str | None:
    """Find the AWS error code in an answer that moto wrote; None when it is a success."""
    if status < 400:
        return None
    for name, value in headers.items():
        if name.lower() == "x-amzn-errortype":
            return value.split("#")[-1]
    match = _XML_CODE.search(body) or _JSON_CODE.search(body)
    return match.group(1).decode().split("#")[-1] if match else f"HTTP{status}"
