"""SSM parameters that AWS itself publishes: the ids of EKS and Bottlerocket images.

All other parameters are moto's.
"""

from collections.abc import Iterable
from typing import Any

from nodewright_local.aws.ec2.images import Image, parameters
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.wire import Call

_PUBLIC_PREFIXES = (
    "/aws/service/eks/",
    "/aws/service/bottlerocket/",
    "/aws/service/ami-windows-latest/",
)
_PER_PAGE = 10


def is_public(name: str) -> bool:
    """Whether AWS publishes this parameter (or path)."""
    return any(f"{name.rstrip('/')}/".startswith(prefix) for prefix in _PUBLIC_PREFIXES)


def _plain_name(name: str) -> str:
    """Reduce `arn:aws:ssm:us-west-2::parameter/aws/…` and `name:version` to the name."""
    if name.startswith("arn:"):
        name = "/" + name.split(":parameter/", 1)[-1]
    return name.split(":")[0]


def _value(image: Image, attribute: str) -> str | None:
    return {
        "image_id": image.image_id,
        "image_name": image.name,
        "release_version": image.release,
        "image_version": image.release,
    }.get(attribute)


def _parameter(region: str, name: str) -> dict[str, Any] | None:
    folder, _, attribute = name.rpartition("/")
    image = parameters(region).get(f"{folder}/image_id")
    value = _value(image, attribute) if image else None
    if image is None or value is None:
        return None
    return {
        "Name": name,
        "Type": "String",
        "Value": value,
        "Version": 1,
        "LastModifiedDate": image.created,
        "ARN": f"arn:aws:ssm:{region}::parameter{name}",
        "DataType": "text",
    }


def get_parameter(call: Call) -> dict[str, Any] | None:
    """Answer GetParameter for a public name, ParameterNotFound if AWS publishes no such; else None."""
    name = _plain_name(call.params["Name"])
    if not is_public(name):
        return None
    found = _parameter(call.region, name)
    if found is None:
        raise AwsError("ParameterNotFound", f"Parameter {call.params['Name']} not found.")
    return {"Parameter": found}


def get_parameters(call: Call) -> dict[str, Any] | None:
    """Answer GetParameters when any name is public; names of both kinds do not mix."""
    wanted = call.params["Names"]
    if not any(is_public(_plain_name(name)) for name in wanted):
        return None
    found = {name: _parameter(call.region, _plain_name(name)) for name in wanted}
    return {
        "Parameters": [parameter for parameter in found.values() if parameter],
        "InvalidParameters": [name for name, parameter in found.items() if parameter is None],
    }


def get_parameters_by_path(call: Call) -> dict[str, Any] | None:
    """Answer GetParametersByPath below a public path."""
    path = call.params["Path"].rstrip("/")
    if not is_public(path):
        return None
    names = sorted(
        _below(path, parameters(call.region), recursive=bool(call.params.get("Recursive")))
    )
    chosen, token = page(names, call.params, limit=_PER_PAGE)
    return {
        "Parameters": [_parameter(call.region, name) for name in chosen],
        "NextToken": token,
    }


def _below(path: str, names: Iterable[str], *, recursive: bool) -> list[str]:
    inside = [name for name in names if name.startswith(path + "/")]
    return inside if recursive else [name for name in inside if "/" not in name[len(path) + 1 :]]
