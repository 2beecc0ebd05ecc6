"""Rules of an EC2NodeClass that are worth an error before anything is sent. Pure.

The API server has the last word; these are the mistakes it would report late or by a pattern.
Values that are still `Output`s pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewright.validation import Check, is_known

FAMILIES = (
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Windows2019",
    "Windows2022",
    "Windows2025",
)
ALIAS_FAMILIES = ("al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025")
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
VOLUME_SIZE = r"[0-9]+(\.[0-9]+)?(G|Gi|T|Ti)"
RESERVED_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
RESERVED_TAG_PREFIX = "kubernetes.io/cluster"
_ALONE = {"id": ("tags", "name", "owner", "alias"), "alias": ("id", "tags", "name", "owner")}


def check_node_class(check: Check, args: Mapping[str, Any]) -> None:
    """Refuse what no EC2NodeClass may say."""
    _check_terms(check, args, "subnet_selector_terms", ("tags", "id"))
    _check_terms(check, args, "security_group_selector_terms", ("tags", "id", "name"))
    _check_images(check, args)
    if (args.get("role") is None) == (args.get("instance_profile") is None):
        raise check.refuse(
            "role", "and instance_profile: exactly one of them is needed", "give one of the two"
        )
    _check_tags(check, args.get("tags", {}))
    for index, mapping in enumerate(args.get("block_device_mappings", [])):
        _check_device(check, f"block_device_mappings[{index}]", mapping)
    check.one_of("instance_store_policy", args.get("instance_store_policy"), ("RAID0",))
    metadata = args.get("metadata_options", {})
    for field, allowed in {
        "http_endpoint": ("enabled", "disabled"),
        "http_protocol_ipv6": ("enabled", "disabled"),
        "http_tokens": ("required", "optional"),
    }.items():
        check.one_of(f"metadata_options.{field}", metadata.get(field), allowed)
    check.between(
        "metadata_options.http_put_response_hop_limit",
        metadata.get("http_put_response_hop_limit"),
        1,
        64,
    )


def _check_terms(check: Check, args: Mapping[str, Any], field: str, keys: Sequence[str]) -> None:
    terms = args.get(field)
    if not is_known(terms):
        return
    if not terms:
        raise check.refuse(field, "is empty", "give it at least one term")
    for index, term in enumerate(terms):
        used = [key for key in keys if term.get(key)]
        where = f"{field}[{index}]"
        if not used:
            raise check.refuse(where, "selects nothing", f"use one of: {', '.join(keys)}")
        if len(used) > 1:
            raise check.refuse(where, f"mixes {' and '.join(used)}", "make a term of each")


def _check_images(check: Check, args: Mapping[str, Any]) -> None:
    family = args.get("ami_family")
    check.one_of("ami_family", family, FAMILIES)
    terms = args["ami_selector_terms"]
    if not is_known(terms):
        return
    if not terms:
        raise check.refuse("ami_selector_terms", "is empty", "use for example alias al2023@latest")
    aliases = [term["alias"] for term in terms if term.get("alias") is not None]
    if aliases and len(terms) > 1:
        raise check.refuse("ami_selector_terms", "has terms beside an alias", "keep the alias only")
    for index, term in enumerate(terms):
        _check_image_term(check, f"ami_selector_terms[{index}]", term)
    if not aliases and family is None:
        raise check.refuse("ami_family", "is missing", "name the family: only an alias implies it")
    if aliases and is_known(aliases[0]):
        _check_alias(check, str(aliases[0]), family)


def _check_image_term(check: Check, where: str, term: Mapping[str, Any]) -> None:
    selectors = ("alias", "tags", "id", "name", "ssm_parameter")
    if not any(term.get(key) for key in selectors):
        raise check.refuse(where, "selects nothing", f"use one of: {', '.join(selectors)}")
    for alone, others in _ALONE.items():
        mixed = [other for other in others if term.get(other)]
        if term.get(alone) and mixed:
            raise check.refuse(
                where, f"mixes {alone} with {', '.join(mixed)}", f"keep {alone} alone"
            )


def _check_alias(check: Check, alias: str, family: object) -> None:
    name, separator, version = alias.partition("@")
    if not separator or not version or name not in ALIAS_FAMILIES:
        raise check.refuse(
            "ami_selector_terms.alias",
            f"is {alias!r}",
            f"write family@version with one of: {', '.join(ALIAS_FAMILIES)}",
        )
    if name.startswith("windows") and version != "latest":
        raise check.refuse("ami_selector_terms.alias", f"is {alias!r}", f"use {name}@latest")
    if is_known(family) and family != "Custom" and str(family).lower() != name:
        raise check.refuse(
            "ami_family", f"is {family!r} beside the alias {alias!r}", "leave it out or use Custom"
        )


def _check_tags(check: Check, tags: Any) -> None:
    if not is_known(tags):
        return
    for key in tags:
        if not key or key in RESERVED_TAGS or key.startswith(RESERVED_TAG_PREFIX):
            raise check.refuse("tags", f"sets {key!r}", "leave it out: the controller sets it")


def _check_device(check: Check, where: str, mapping: Mapping[str, Any]) -> None:
    ebs = mapping.get("ebs", {})
    check.one_of(f"{where}.ebs.volume_type", ebs.get("volume_type"), VOLUME_TYPES)
    check.matches(f"{where}.ebs.volume_size", ebs.get("volume_size"), VOLUME_SIZE, "100Gi")
    if ebs and ebs.get("volume_size") is None and ebs.get("snapshot_id") is None:
        raise check.refuse(
            f"{where}.ebs", "has neither volume_size nor snapshot_id", "give it one of them"
        )
