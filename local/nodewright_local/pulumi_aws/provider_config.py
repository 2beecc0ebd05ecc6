"""The provider's own configuration: what `aws:region` and an explicit `aws.Provider` may say.

Nested values arrive as JSON text, as the SDK sends them. What only matters outside a laptop (metadata
service, proxies, retries) is accepted and has no effect; anything else is refused by name.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from nodewright_local.pulumi_aws.aws import ProviderSettings
from nodewright_local.pulumi_aws.checks import Failure
from nodewright_local.pulumi_aws.values import UNKNOWN, Values

_EFFECTIVE = (
    "region",
    "defaultTags",
    "accessKey",
    "secretKey",
    "token",
    "profile",
    "endpoints",
)
_WITHOUT_EFFECT = (
    "customCaBundle",
    "ec2MetadataServiceEndpoint",
    "ec2MetadataServiceEndpointMode",
    "httpProxy",
    "httpsProxy",
    "insecure",
    "maxRetries",
    "noProxy",
    "retryMode",
    "s3UsePathStyle",
    "s3UsEast1RegionalEndpoint",
    "skipCredentialsValidation",
    "skipMetadataApiCheck",
    "skipRegionValidation",
    "skipRequestingAccountId",
    "stsRegion",
    "tokenBucketRateLimiterCapacity",
    "useDualstackEndpoint",
    "useFipsEndpoint",
    "userAgents",
    "version",
    "pluginDownloadURL",
)


def check_config(values: Values) -> list[Failure]:
    """Return what is wrong with a provider configuration."""
    known = {*_EFFECTIVE, *_WITHOUT_EFFECT}
    failures = [
        Failure(
            property=name,
            reason=f"provider property {name!r} is not supported by this AWS provider of the "
            f"laptop cluster; supported here: {', '.join(_EFFECTIVE)}",
        )
        for name in values
        if name not in known and not name.startswith("__")
    ]
    if values.get("region") is None and _region_of_environment() is None:
        failures.append(
            Failure(
                property="region",
                reason="no region: set aws:region in the stack's configuration, or AWS_REGION",
            )
        )
    return failures


def parse_config(values: Values) -> ProviderSettings:
    """Return the settings; `ValueError` names the property that cannot be read."""
    tags = _nested("defaultTags", values.get("defaultTags")) or {}
    endpoints = _nested("endpoints", values.get("endpoints")) or []
    return ProviderSettings(
        region=_known_text(values.get("region")) or _region_of_environment() or "us-east-1",
        default_tags=dict(tags.get("tags") or {}),
        access_key=_known_text(values.get("accessKey")),
        secret_key=_known_text(values.get("secretKey")),
        session_token=_known_text(values.get("token")),
        profile=_known_text(values.get("profile")),
        endpoints={service: url for entry in endpoints for service, url in entry.items() if url},
    )


def differing(olds: Values, news: Values) -> list[str]:
    """Return the names of the settings that differ and have an effect."""
    return [
        name
        for name in _EFFECTIVE
        if _nested(name, olds.get(name)) != _nested(name, news.get(name))
    ]


def _region_of_environment() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _known_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _nested(name: str, value: Any) -> Any:
    if value is UNKNOWN or isinstance(value, Mapping | list):
        return None if value is UNKNOWN else value
    if name not in ("defaultTags", "endpoints") or value is None:
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"provider property {name!r} is not JSON: {error}") from error
