"""The Node object as its kubelet (and the AWS cloud provider) would write it."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from nodewright_local.kubelets.capacity import (
    allocatable_amounts,
    capacity_amounts,
    devices,
    resource_list,
)
from nodewright_local.kubelets.instance import Hardware, Instance
from nodewright_local.kubelets.userdata.bootstrap import Bootstrap
from nodewright_local.kubelets.volumes.names import DRIVER_ZONE, ZONE

KWOK_ANNOTATION = "kwok.x-k8s.io/node"
"""kwok heartbeats a node while this annotation is ``fake``."""
ALIVE = "fake"
DEAD = "stopped"

ATTACH_ANNOTATION = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Every kubelet sets it: kube-controller-manager attaches and detaches the node's volumes."""

KUBELET_ADDRESS = "127.0.0.1"
"""Where the API server finds the kubelet of every node."""

_OS_IMAGES = {
    "AL2023": ("Amazon Linux 2023", "6.12.53-69.119.amzn2023", "containerd://2.1.4"),
    "Bottlerocket": ("Bottlerocket OS (aws-k8s)", "6.12.53", "containerd://2.1.4+bottlerocket"),
    "AL2": ("Amazon Linux 2", "5.10.245-241.976.amzn2", "containerd://1.7.29"),
}


def node_object(instance: Instance, bootstrap: Bootstrap, zone_id: str | None) -> dict[str, Any]:
    """Return the Node to create: name, labels, taints, providerID."""
    taints = [_taint(taint.key, taint.value, taint.effect) for taint in bootstrap.taints]
    taints.append(_taint("node.kubernetes.io/not-ready", "", "NoSchedule"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance.private_dns_name,
            "labels": {**bootstrap.labels, **machine_labels(instance, zone_id)},
            "annotations": {KWOK_ANNOTATION: ALIVE, ATTACH_ANNOTATION: "true"},
        },
        "spec": {"providerID": instance.provider_id, "taints": taints},
    }


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def machine_labels(instance: Instance, zone_id: str | None) -> dict[str, str]:
    """Return the labels that follow from the machine, not from its user data."""
    labels = {
        "kubernetes.io/arch": instance.kubernetes_architecture,
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": instance.private_dns_name,
        "node.kubernetes.io/instance-type": instance.instance_type,
        "topology.kubernetes.io/region": instance.region,
        ZONE: instance.zone,
        DRIVER_ZONE: instance.zone,  # a kubelet adds it when the EBS driver registers
    }
    return {**labels, "topology.k8s.aws/zone-id": zone_id} if zone_id else labels


def node_status(
    instance: Instance,
    hardware: Hardware,
    bootstrap: Bootstrap,
    *,
    kubelet_version: str,
    kubelet_port: int,
) -> dict[str, Any]:
    """Return the status without conditions: what the machine is and what it can hold.

    Raises UserDataError if the reservations exceed the machine.
    """
    capacity = capacity_amounts(instance, hardware, bootstrap)
    allocatable = allocatable_amounts(instance, hardware, bootstrap, capacity)
    extended = devices(instance, hardware)
    return {
        "capacity": resource_list(capacity, extended),
        "allocatable": resource_list(allocatable, extended),
        "addresses": [
            {"type": "InternalIP", "address": KUBELET_ADDRESS},
            {"type": "InternalDNS", "address": instance.private_dns_name},
            {"type": "Hostname", "address": instance.private_dns_name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "nodeInfo": _node_info(instance, kubelet_version),
    }


def _node_info(instance: Instance, kubelet_version: str) -> Mapping[str, str]:
    os_image, kernel, runtime = _OS_IMAGES[instance.image_family]
    machine_id = _stable_hex("machine", instance.instance_id)
    return {
        "architecture": instance.kubernetes_architecture,
        "operatingSystem": "linux",
        "osImage": os_image,
        "kernelVersion": f"{kernel}.{instance.architecture}",
        "containerRuntimeVersion": runtime,
        "kubeletVersion": kubelet_version,
        "kubeProxyVersion": "",
        "machineID": machine_id,
        "systemUUID": _as_uuid(machine_id),
        "bootID": _as_uuid(_stable_hex("boot", instance.instance_id)),
    }


def _stable_hex(kind: str, instance_id: str) -> str:
    return hashlib.sha256(f"{kind}/{instance_id}".encode()).hexdigest()[:32]


def _as_uuid(digits: str) -> str:
    bounds = (0, 8, 12, 16, 20, 32)
    return "-".join(digits[a:b] for a, b in pairwise(bounds))


def first_conditions(now: datetime) -> list[dict[str, str]]:
    """Return the conditions of a kubelet that has just started: healthy, network not ready yet."""
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    healthy = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    conditions = [
        _condition(name, "False", reason, message, time) for name, reason, message in healthy
    ]
    waiting = "the pod network of the node is not set up yet"
    conditions.append(_condition("Ready", "False", "KubeletNotReady", waiting, time))
    return conditions


def _condition(name: str, status: str, reason: str, message: str, time: str) -> dict[str, str]:
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    }
