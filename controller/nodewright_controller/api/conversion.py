"""v1beta1 to v1 and back, without loss, for NodePool, NodeClaim and EC2NodeClass.

Objects are plain JSON here, and fields that neither version knows pass through. Each kind has one
function up and one down that express what both versions mean; what is left over is kept by
`residue` in the annotation `<compatibility group>/v1-fields` (on v1beta1 objects) or
`.../v1beta1-fields` (on v1 objects), so that there and back is the identity.

What moves:

    NodePool, NodeClaim   kubelet            annotation v1beta1-kubelet-conversion (see below)
                          nodeClassRef       apiVersion -> group; just a name means EC2NodeClass;
                                             annotation v1beta1-nodeclass-reference
    NodePool              expireAfter        spec.disruption -> spec.template.spec
                          consolidationPolicy  WhenUnderutilized -> WhenEmptyOrUnderutilized;
                                             without consolidateAfter it becomes 0s, with one it
                                             is kept as given
                          do-not-consolidate, do-not-evict of the template -> do-not-disrupt
    NodeClaim             expireAfter        v1beta1 has none: Never without a NodePool, otherwise
                                             the default of v1
    EC2NodeClass          amiSelectorTerms   none: the alias <family>@latest
                          amiFamily Ubuntu   AL2 with Ubuntu's root volume; annotation v1beta1-ubuntu
                          metadataOptions    hop limit 2 unless given (1 on the way down)
                          kubelet            annotation v1beta1-kubelet-conversion on v1beta1

A v1beta1 NodePool's kubelet has no field in v1, whose EC2NodeClass owns those settings. It stays as
JSON in the annotation `compatibility.karpenter.sh/v1beta1-kubelet-conversion` of the NodePool, and
of each NodeClaim made from it; whoever launches a NodeClaim must prefer it to the EC2NodeClass's
kubelet (`kubelet_of`).
Upstream: the conversion code of Karpenter 1.0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from nodewright_controller.api import residue
from nodewright_controller.api.ec2nodeclass import AMI_FAMILIES
from nodewright_controller.api.labels import AWS_GROUP, DO_NOT_DISRUPT, GROUP, NODEPOOL

Json = dict[str, Any]

V1: Final = "v1"
V1BETA1: Final = "v1beta1"

KUBELET: Final = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
NODE_CLASS_REFERENCE: Final = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
UBUNTU: Final = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"

_KEPT_FROM_V1: Final = "v1-fields"
_KEPT_FROM_V1BETA1: Final = "v1beta1-fields"

_ALIASES: Final = {
    "AL2": "al2@latest",
    "AL2023": "al2023@latest",
    "Bottlerocket": "bottlerocket@latest",
    "Windows2019": "windows2019@latest",
    "Windows2022": "windows2022@latest",
}
"""What a family without amiSelectorTerms means; Custom and Ubuntu have no published alias."""

_UBUNTU_DEVICES: Final = [
    {
        "deviceName": "/dev/sda1",
        "rootVolume": True,
        "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
    }
]
_IMDS: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpTokens": "required",
}
_HOP_LIMIT: Final = "httpPutResponseHopLimit"
_OLD_VETOES: Final = ("karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-evict")


class ConversionError(Exception):
    """An object cannot be converted; the message names the object and the field."""


def convert(body: Mapping[str, Any], api_version: str) -> Json:
    """Return the object in `api_version` (such as `karpenter.sh/v1`); the argument is not changed.

    Raises:
        ConversionError: kind or version is not ours, or a field has the wrong shape.

    """
    have, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    who = _who(body)
    steps = _STEPS.get((have.partition("/")[0], kind))
    if steps is None:
        raise ConversionError(f"{who}: no conversion for kind {kind!r} of {have!r}")
    group, up, down = steps
    versions = {f"{group}/{V1}", f"{group}/{V1BETA1}"}
    for version in (have, api_version):
        if version not in versions:
            raise ConversionError(
                f"{who}: apiVersion {version!r} is not served; use one of {sorted(versions)}"
            )
    source = copy.deepcopy(dict(body))
    if have == api_version:
        return source
    try:
        if api_version.endswith(f"/{V1}"):
            result = _across(source, group, (up, down), _KEPT_FROM_V1, _KEPT_FROM_V1BETA1)
        else:
            result = _across(source, group, (down, up), _KEPT_FROM_V1BETA1, _KEPT_FROM_V1)
    except ConversionError as error:
        raise ConversionError(f"{who}: {error}") from error
    return {**result, "apiVersion": api_version, "kind": kind}


def kubelet_of(annotations: Mapping[str, str] | None) -> Json | None:
    """Return the kubelet settings that a v1beta1 NodePool or NodeClaim brought along, if any.

    They take the place of `spec.kubelet` of the EC2NodeClass. Text that is no JSON object counts as
    none.
    """
    return _json_object((annotations or {}).get(KUBELET))


def _across(
    source: Json,
    group: str,
    steps: tuple[Callable[[Json], Json], Callable[[Json], Json]],
    kept_here: str,
    kept_there: str,
) -> Json:
    """Convert, put back what an earlier conversion kept, and keep what has no place over there."""
    forward, backward = steps
    here = f"compatibility.{group}/{kept_here}"
    there = f"compatibility.{group}/{kept_there}"
    notes = _take_annotation(source, here)
    original = {key: value for key, value in source.items() if key not in ("apiVersion", "kind")}
    result = forward(copy.deepcopy(original))
    if notes is not None:
        residue.restore(result, notes)
    natural = backward(copy.deepcopy(result))
    left_over = residue.note(natural, original)
    _take_annotation(result, there)
    if left_over:
        _annotate(result, there, left_over)
    return result


# --- NodePool ---


def _nodepool_up(body: Json) -> Json:
    spec = _section(body, "spec")
    template_spec = _section(body, "spec", "template", "spec")
    _kubelet_up(body, template_spec)
    _reference_up(body, template_spec, "spec.template.spec.nodeClassRef")
    if "disruption" in spec:
        disruption = _section(body, "spec", "disruption")
        if "expireAfter" in disruption:
            template_spec["expireAfter"] = disruption.pop("expireAfter")
        if disruption.get("consolidationPolicy") == "WhenUnderutilized":
            disruption["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
        disruption.setdefault("consolidateAfter", "0s")
    _vetoes_up(body)
    return body


def _nodepool_down(body: Json) -> Json:
    spec = _section(body, "spec")
    template_spec = _section(body, "spec", "template", "spec")
    _kubelet_down(body, template_spec)
    _reference_down(body, template_spec, "spec.template.spec.nodeClassRef")
    spec.pop("replicas", None)
    template_spec.pop("terminationGracePeriod", None)
    expire_after = template_spec.pop("expireAfter", None)
    if expire_after is None and "disruption" not in spec:
        return body
    disruption = _make_section(body, "spec", "disruption")
    if expire_after is not None:
        disruption["expireAfter"] = expire_after
    if disruption.get("consolidationPolicy") in ("WhenEmptyOrUnderutilized", "Balanced"):
        disruption["consolidationPolicy"] = "WhenUnderutilized"
        if disruption.get("consolidateAfter") == "0s":
            del disruption["consolidateAfter"]
    for budget in disruption.get("budgets") or ():
        if isinstance(budget, dict):
            budget.pop("reasons", None)
    return body


def _vetoes_up(body: Json) -> None:
    """Rename the two annotations with which v1beta1 pools still spared their nodes."""
    annotations = _section(body, "spec", "template", "metadata").get("annotations")
    if not isinstance(annotations, dict):
        return
    found = [annotations.pop(key) for key in _OLD_VETOES if key in annotations]
    if "true" in found:
        annotations.setdefault(DO_NOT_DISRUPT, "true")


# --- NodeClaim ---


def _node_claim_up(body: Json) -> Json:
    spec = _section(body, "spec")
    _kubelet_up(body, spec)
    _reference_up(body, spec, "spec.nodeClassRef")
    if NODEPOOL not in (_metadata(body).get("labels") or {}):
        spec.setdefault("expireAfter", "Never")
    return body


def _node_claim_down(body: Json) -> Json:
    spec = _section(body, "spec")
    _kubelet_down(body, spec)
    _reference_down(body, spec, "spec.nodeClassRef")
    spec.pop("expireAfter", None)
    spec.pop("terminationGracePeriod", None)
    return body


# --- What both have: kubelet and nodeClassRef ---


def _kubelet_up(body: Json, holder: Json) -> None:
    kubelet = holder.pop("kubelet", None)
    if kubelet is not None:
        _annotate(body, KUBELET, msgspec.json.encode(kubelet, order="sorted").decode())


def _kubelet_down(body: Json, holder: Json) -> None:
    kubelet = _json_object((_metadata(body).get("annotations") or {}).get(KUBELET))
    if kubelet is not None:
        _take_annotation(body, KUBELET)
        holder["kubelet"] = kubelet


def _reference_up(body: Json, holder: Json, field: str) -> None:
    reference = holder.get("nodeClassRef")
    if reference is None:
        return
    if not isinstance(reference, dict):
        raise ConversionError(f"{field}: expected an object, got {_shape(reference)}")
    current = _current_reference(reference)
    holder["nodeClassRef"] = current
    if _old_reference(current) != reference:
        text = msgspec.json.encode(reference, order="sorted").decode()
        _annotate(body, NODE_CLASS_REFERENCE, text)


def _reference_down(body: Json, holder: Json, field: str) -> None:
    reference = holder.get("nodeClassRef")
    given = _json_object(_take_annotation(body, NODE_CLASS_REFERENCE))
    if reference is None:
        return
    if not isinstance(reference, dict):
        raise ConversionError(f"{field}: expected an object, got {_shape(reference)}")
    unchanged = given is not None and _current_reference(given) == reference
    holder["nodeClassRef"] = given if unchanged else _old_reference(reference)


def _current_reference(reference: Json) -> Json:
    """Return the v1 form: the group of the apiVersion; what is missing is an EC2NodeClass."""
    current = dict(reference)
    api_version = str(current.pop("apiVersion", "") or "")
    current["group"] = api_version.partition("/")[0] or AWS_GROUP
    current["kind"] = current.get("kind") or "EC2NodeClass"
    return current


def _old_reference(reference: Json) -> Json:
    """Return the v1beta1 form, in which the group carries a version."""
    old = dict(reference)
    group = old.pop("group", None)
    if group:
        old["apiVersion"] = f"{group}/{V1BETA1}"
    return old


# --- EC2NodeClass ---


def _node_class_up(body: Json) -> Json:
    spec = _section(body, "spec")
    kubelet = _json_object((_metadata(body).get("annotations") or {}).get(KUBELET))
    if kubelet is not None:
        _take_annotation(body, KUBELET)
        spec["kubelet"] = kubelet
    family = spec.get("amiFamily")
    if family == "Ubuntu":
        _ubuntu_up(body, spec)
    elif not spec.get("amiSelectorTerms") and family in _ALIASES:
        spec["amiSelectorTerms"] = [{"alias": _ALIASES[family]}]
    _hop_limit(body, 2)
    return body


def _node_class_down(body: Json) -> Json:
    spec = _section(body, "spec")
    kubelet = spec.pop("kubelet", None)
    if kubelet is not None:
        _annotate(body, KUBELET, msgspec.json.encode(kubelet, order="sorted").decode())
    for field in _V1_ONLY:
        spec.pop(field, None)
    _ubuntu_down(body, spec)
    _aliases_down(spec)
    _hop_limit(body, 1)
    return body


_V1_ONLY: Final = (
    "capacityReservationSelectorTerms",
    "connectionTracking",
    "cpuOptions",
    "enclaveOptions",
    "ipPrefixCount",
    "networkInterfaces",
    "placementGroupSelector",
)


def _ubuntu_up(body: Json, spec: Json) -> None:
    """Ubuntu is no family any more: its bootstrap is AL2's, its root volume was its own."""
    changed = ["amiFamily"]
    spec["amiFamily"] = "AL2"
    if not spec.get("blockDeviceMappings"):
        spec["blockDeviceMappings"] = copy.deepcopy(_UBUNTU_DEVICES)
        changed.append("blockDeviceMappings")
    if spec.get("amiSelectorTerms") is None:
        spec["amiSelectorTerms"] = []  # no published image is meant: not ready until one is named
    _annotate(body, UBUNTU, ",".join(changed))


def _ubuntu_down(body: Json, spec: Json) -> None:
    changed = (_take_annotation(body, UBUNTU) or "").split(",")
    if "amiFamily" not in changed or spec.get("amiFamily") != "AL2":
        return
    spec["amiFamily"] = "Ubuntu"
    if "blockDeviceMappings" in changed and spec.get("blockDeviceMappings") == _UBUNTU_DEVICES:
        del spec["blockDeviceMappings"]
    if spec.get("amiSelectorTerms") == []:
        del spec["amiSelectorTerms"]


def _aliases_down(spec: Json) -> None:
    """Say by the family alone what an alias says; a pinned version is kept by the residue."""
    terms = spec.get("amiSelectorTerms")
    if not isinstance(terms, list):
        return
    aliases = [str(term["alias"]) for term in terms if isinstance(term, dict) and "alias" in term]
    if aliases:
        family = aliases[0].partition("@")[0].lower()
        named = next((name for name in AMI_FAMILIES if name.lower() == family), None)
        if named is not None:
            spec.setdefault("amiFamily", named)
        del spec["amiSelectorTerms"]
        return
    for term in terms:
        if isinstance(term, dict):
            term.pop("ssmParameter", None)


def _hop_limit(body: Json, hops: int) -> None:
    """Write out the default of the version that we come from: the other one has another."""
    spec = _section(body, "spec")
    if spec.get("metadataOptions") is None:
        spec["metadataOptions"] = {**_IMDS, _HOP_LIMIT: hops}
    else:
        _section(body, "spec", "metadataOptions").setdefault(_HOP_LIMIT, hops)


_Step = Callable[[Json], Json]
_STEPS: Final[Mapping[tuple[str, str], tuple[str, _Step, _Step]]] = {
    (GROUP, "NodePool"): (GROUP, _nodepool_up, _nodepool_down),
    (GROUP, "NodeClaim"): (GROUP, _node_claim_up, _node_claim_down),
    (AWS_GROUP, "EC2NodeClass"): (AWS_GROUP, _node_class_up, _node_class_down),
}


# --- JSON ---


def _who(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{body.get('kind') or 'object'} {name or '(no name)'}"


def _shape(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _section(body: Json, *path: str) -> Json:
    """Return a nested object, or an unconnected empty one where it is missing."""
    found: Any = body
    for depth, key in enumerate(path, start=1):
        found = found.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            where = ".".join(path[:depth])
            raise ConversionError(f"{where}: expected an object, got {_shape(found)}")
    assert isinstance(found, dict)
    return found


def _make_section(body: Json, *path: str) -> Json:
    """Return a nested object, made where it is missing."""
    _section(body, *path)
    for key in path:
        if body.get(key) is None:
            body[key] = {}
        body = body[key]
    return body


def _metadata(body: Json) -> Json:
    return _section(body, "metadata")


def _annotate(body: Json, key: str, text: str) -> None:
    _make_section(body, "metadata", "annotations")[key] = text


def _take_annotation(body: Json, key: str) -> str | None:
    """Remove an annotation, and the map with its last one; return its text."""
    annotations = _section(body, "metadata", "annotations")
    text = annotations.pop(key, None)
    if text is not None and not annotations:
        del body["metadata"]["annotations"]
    return text if isinstance(text, str) else None


def _json_object(text: str | None) -> Json | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else None
    except msgspec.DecodeError:
        return None
