"""Labels and taints that a kubelet may give its own Node.

The label rule is the kubelet's own start-up check (and NodeRestriction's at the API server): in the
``kubernetes.io`` and ``k8s.io`` domains only a fixed list and two prefixes are allowed. Source:
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
"""

import re
from collections.abc import Iterable, Mapping

from nodewright_local.kubelets.userdata.bootstrap import JoinProblem, Taint, UserDataError

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})

_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
_KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_GUARDED_DOMAINS = ("kubernetes.io", "k8s.io")


def is_qualified_name(key: str) -> bool:
    """Tell whether ``key`` is ``name`` or ``prefix/name`` as labels and taints want it."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Tell whether ``value`` may stand in a label or taint; empty is allowed."""
    return value == "" or _NAME.fullmatch(value) is not None


def may_kubelet_set(key: str) -> bool:
    """Tell whether a kubelet starts with this label among its ``--node-labels``."""
    prefix = key.rpartition("/")[0]
    guarded = any(prefix == domain or prefix.endswith("." + domain) for domain in _GUARDED_DOMAINS)
    if not guarded or key in _KUBELET_LABELS:
        return True
    return any(prefix == allowed or prefix.endswith("." + allowed) for allowed in _KUBELET_PREFIXES)


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels, or raise the error that the kubelet would exit with."""
    for key, value in labels.items():
        if not is_qualified_name(key):
            raise UserDataError(
                JoinProblem.LABEL_NOT_ALLOWED, f"node label {key!r} is not a valid label key"
            )
        if not is_label_value(value):
            raise UserDataError(
                JoinProblem.LABEL_NOT_ALLOWED,
                f"node label {key}={value!r}: a value has at most 63 letters, digits, '-', '_' "
                "or '.', and begins and ends with a letter or digit",
            )
    refused = sorted(key for key in labels if not may_kubelet_set(key))
    if refused:
        raise UserDataError(
            JoinProblem.LABEL_NOT_ALLOWED,
            f"a kubelet may not label its own node with {', '.join(refused)}; "
            "leave the label out of --node-labels and let a controller set it",
        )
    return dict(labels)


def check_taints(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints in order, or raise the error for the first that is not valid."""
    seen: set[tuple[str, str]] = set()
    result = tuple(taints)
    for taint in result:
        shown = f"taint {taint.key}={taint.value}:{taint.effect}"
        if not is_qualified_name(taint.key):
            raise UserDataError(JoinProblem.BAD_TAINT, f"{shown}: the key is not valid")
        if not is_label_value(taint.value):
            raise UserDataError(JoinProblem.BAD_TAINT, f"{shown}: the value is not valid")
        if taint.effect not in EFFECTS:
            raise UserDataError(
                JoinProblem.BAD_TAINT, f"{shown}: the effect must be one of {sorted(EFFECTS)}"
            )
        if (taint.key, taint.effect) in seen:
            raise UserDataError(JoinProblem.BAD_TAINT, f"{shown}: key and effect appear twice")
        seen.add((taint.key, taint.effect))
    return result


def parse_labels(text: str) -> dict[str, str]:
    """Parse ``k=v,k2=v2`` as ``--node-labels`` does (a key alone has an empty value)."""
    labels: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = item.partition("=")
        labels[key.strip()] = value.strip()
    return labels


def parse_taints(text: str) -> tuple[Taint, ...]:
    """Parse ``key=value:Effect,key2:Effect`` as ``--register-with-taints`` does."""
    taints = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        pair, colon, effect = item.rpartition(":")
        if not colon:
            raise UserDataError(
                JoinProblem.BAD_TAINT, f"taint {item!r} has no effect; write key=value:NoSchedule"
            )
        key, _, value = pair.partition("=")
        taints.append(Taint(key=key, value=value, effect=effect))
    return tuple(taints)
