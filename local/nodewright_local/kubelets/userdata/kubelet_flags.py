"""The kubelet's command line, as far as it changes the Node: labels, taints, pods, reservations."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nodewright_local.kubelets.userdata.bootstrap import Taint, bad_kubelet
from nodewright_local.kubelets.userdata.kubelet_configuration import (
    check_eviction,
    check_reservation,
)
from nodewright_local.kubelets.userdata.node_metadata import parse_labels, parse_taints


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFlags:
    """What the flags say; what they do not say is empty or None."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)


def parse_flags(words: Iterable[str]) -> KubeletFlags:
    """Read a list of flag strings, each ``--name=value``, ``--name value`` or several of them.

    Repeated ``--node-labels`` add up as they do in the kubelet; of other flags the last one counts.
    """
    labels: dict[str, str] = {}
    last: dict[str, str] = {}
    for name, value in _pairs(words):
        if name == "node-labels":
            labels.update(parse_labels(value))
        last[name] = value
    kube_reserved = _pairs_of(last, "kube-reserved", "=")
    system_reserved = _pairs_of(last, "system-reserved", "=")
    eviction_hard = _pairs_of(last, "eviction-hard", "<")
    check_reservation("--kube-reserved", kube_reserved)
    check_reservation("--system-reserved", system_reserved)
    check_eviction("--eviction-hard", eviction_hard)
    return KubeletFlags(
        labels=labels,
        taints=parse_taints(last.get("register-with-taints", "")),
        max_pods=_integer(last, "max-pods"),
        pods_per_core=_integer(last, "pods-per-core"),
        kube_reserved=kube_reserved,
        system_reserved=system_reserved,
        eviction_hard=eviction_hard,
    )


def _pairs(strings: Iterable[str]) -> Iterator[tuple[str, str]]:
    try:
        words = [word for string in strings for word in shlex.split(string)]
    except ValueError as error:
        raise bad_kubelet(f"kubelet flags do not parse: {error}") from error
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("--"):
            raise bad_kubelet(f"kubelet takes no argument {word!r}; flags begin with --")
        name, equals, value = word[2:].partition("=")
        if not equals and position < len(words) and not words[position].startswith("--"):
            value = words[position]
            position += 1
        yield name, value


def _pairs_of(flags: Mapping[str, str], name: str, separator: str) -> dict[str, str]:
    pairs = {}
    for item in filter(None, flags.get(name, "").split(",")):
        key, found, value = item.partition(separator)
        if not found:
            raise bad_kubelet(f"--{name}: {item!r} is not of the form key{separator}value")
        pairs[key.strip()] = value.strip()
    return pairs


def _integer(flags: Mapping[str, str], name: str) -> int | None:
    text = flags.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise bad_kubelet(f"--{name} must be a non-negative number, not {text!r}")
    return int(text)
