"""Hypothesis strategies for NodePool, NodeClaim and EC2NodeClass as JSON, in both versions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

_names = st.sampled_from(["default", "general", "gpu"])
_texts = st.sampled_from(["a", "b", "x/y", "true", ""])
_durations = st.sampled_from(["0s", "30s", "1h30m", "720h", "Never"])
_ints = st.integers(min_value=0, max_value=100)


def some(required: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[Json]:
    """An object with all required fields and any of the optional ones."""
    return st.fixed_dictionaries(required or {}, optional=optional)


def lists(item: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(item, max_size=3)


_requirements = lists(
    some(
        {"key": st.sampled_from(["kubernetes.io/arch", "team"]), "operator": st.just("In")},
        values=lists(_texts),
        minValues=st.integers(1, 3),
    )
)
_taints = lists(some({"key": _names, "effect": st.just("NoSchedule")}, value=_texts))
_kubelet = some(maxPods=_ints, clusterDNS=lists(_texts), systemReserved=some(cpu=st.just("100m")))
_conditions = lists(
    some({"type": st.just("Ready"), "status": st.sampled_from(["True", "False"])}, reason=_names)
)

# What people and older controllers have written there, well-formed and not.
_foreign = st.sampled_from(
    [
        ("compatibility.karpenter.sh/v1beta1-kubelet-conversion", '{"maxPods": 17}'),
        ("compatibility.karpenter.sh/v1beta1-kubelet-conversion", "not json"),
        ("compatibility.karpenter.sh/v1beta1-nodeclass-reference", '{"name":"default"}'),
        ("compatibility.karpenter.sh/v1beta1-nodeclass-reference", "[]"),
        ("compatibility.karpenter.k8s.aws/v1beta1-ubuntu", "amiFamily,blockDeviceMappings"),
        ("compatibility.karpenter.k8s.aws/v1beta1-ubuntu", "amiFamily"),
        ("example.com/note", "hello"),
    ]
)
_annotations = st.lists(_foreign, min_size=1, max_size=4).map(dict)
_labels = st.sampled_from([{"karpenter.sh/nodepool": "general"}, {"team": "a"}])
_metadata = some({"name": _names}, annotations=_annotations, labels=_labels, uid=st.just("u-1"))

_reference_beta = some({"name": _names}, kind=st.sampled_from(["EC2NodeClass", "Other"])).flatmap(
    lambda ref: st.sampled_from(
        [
            ref,
            {**ref, "apiVersion": "karpenter.k8s.aws/v1beta1"},
            {**ref, "apiVersion": "karpenter.k8s.aws/v1"},
            {**ref, "apiVersion": "example.com/v1"},
        ]
    )
)
_reference = some(
    {
        "group": st.sampled_from(["karpenter.k8s.aws", "example.com"]),
        "kind": st.sampled_from(["EC2NodeClass", "Other"]),
        "name": _names,
    }
)
_template_metadata = some(
    labels=st.dictionaries(_names, _texts, max_size=2),
    annotations=st.dictionaries(
        st.sampled_from(
            [
                "karpenter.sh/do-not-consolidate",
                "karpenter.sh/do-not-evict",
                "karpenter.sh/do-not-disrupt",
                "mine",
            ]
        ),
        st.sampled_from(["true", "false"]),
        max_size=3,
    ),
)
_budget: dict[str, Any] = {
    "schedule": st.just("0 9 * * *"),
    "duration": st.just("8h"),
}
_nodes: dict[str, Any] = {"nodes": st.sampled_from(["10%", "0", "5"])}
_pool_status = some(resources=some(cpu=st.just("4")), nodes=_ints, conditions=_conditions)


def _nodepool(version: str, template: Any, disruption: Any, **spec: Any) -> Any:
    return some(
        {
            "apiVersion": st.just(f"karpenter.sh/{version}"),
            "kind": st.just("NodePool"),
            "metadata": _metadata,
            "spec": some(
                {"template": some({"spec": template}, metadata=_template_metadata)},
                disruption=disruption,
                limits=some(cpu=st.sampled_from(["16", 16])),
                weight=st.integers(1, 100),
                **spec,
            ),
        },
        status=_pool_status,
    )


nodepools_beta = _nodepool(
    "v1beta1",
    some(
        {"requirements": _requirements, "nodeClassRef": _reference_beta},
        kubelet=_kubelet,
        taints=_taints,
        startupTaints=_taints,
    ),
    some(
        consolidationPolicy=st.sampled_from(["WhenUnderutilized", "WhenEmpty"]),
        consolidateAfter=_durations,
        expireAfter=_durations,
        budgets=lists(some(_nodes, **_budget)),
    ),
)
nodepools = _nodepool(
    "v1",
    some(
        {"requirements": _requirements, "nodeClassRef": _reference},
        taints=_taints,
        startupTaints=_taints,
        terminationGracePeriod=_durations,
        expireAfter=_durations,
    ),
    some(
        consolidationPolicy=st.sampled_from(["WhenEmptyOrUnderutilized", "WhenEmpty", "Balanced"]),
        consolidateAfter=_durations,
        budgets=lists(
            some(_nodes, reasons=lists(st.sampled_from(["Empty", "Drifted"])), **_budget)
        ),
    ),
    replicas=_ints,
)


def _node_claim(version: str, reference: Any, **spec: Any) -> Any:
    return some(
        {
            "apiVersion": st.just(f"karpenter.sh/{version}"),
            "kind": st.just("NodeClaim"),
            "metadata": _metadata,
            "spec": some(
                {"requirements": _requirements, "nodeClassRef": reference},
                taints=_taints,
                resources=some(requests=some(cpu=st.just("1"))),
                **spec,
            ),
        },
        status=some(nodeName=_names, providerID=_texts, conditions=_conditions),
    )


node_claims_beta = _node_claim("v1beta1", _reference_beta, kubelet=_kubelet)
node_claims = _node_claim(
    "v1", _reference, expireAfter=_durations, terminationGracePeriod=_durations
)

_devices = lists(
    some(deviceName=st.just("/dev/sda1"), ebs=some(volumeSize=st.just("20Gi")))
) | st.just(
    [
        {
            "deviceName": "/dev/sda1",
            "rootVolume": True,
            "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
        }
    ]
)
_common_terms: dict[str, Any] = {"id": st.just("ami-1"), "name": _names, "owner": st.just("self")}
_alias = st.sampled_from(
    ["al2023@latest", "al2023@v20260501", "bottlerocket@1.60.0", "windows2025@latest"]
)
_metadata_options = some(
    httpTokens=st.sampled_from(["required", "optional"]),
    httpPutResponseHopLimit=st.integers(1, 3),
)


def _node_class(version: str, families: list[str], term: Any, **spec: Any) -> Any:
    return some(
        {
            "apiVersion": st.just(f"karpenter.k8s.aws/{version}"),
            "kind": st.just("EC2NodeClass"),
            "metadata": _metadata,
            "spec": some(
                amiFamily=st.sampled_from(families),
                amiSelectorTerms=lists(term),
                blockDeviceMappings=_devices,
                metadataOptions=_metadata_options,
                associatePublicIPAddress=st.booleans(),
                userData=_texts,
                tags=some(team=_texts),
                **spec,
            ),
        },
        status=some(amis=lists(some(id=st.just("ami-1"))), conditions=_conditions),
    )


_families = ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022"]
node_classes_beta = _node_class("v1beta1", [*_families, "Ubuntu"], some(**_common_terms))
node_classes = _node_class(
    "v1",
    [*_families, "Windows2025"],
    some(**_common_terms, ssmParameter=st.just("/a/b")) | some({"alias": _alias}),
    kubelet=_kubelet,
    ipPrefixCount=_ints,
    networkInterfaces=lists(some(networkCardIndex=_ints)),
    placementGroupSelector=some(name=_names),
    connectionTracking=some(udpTimeout=_ints),
    cpuOptions=some(nestedVirtualization=st.just("enabled")),
    enclaveOptions=some(enabled=st.booleans()),
    capacityReservationSelectorTerms=lists(some(id=st.just("cr-1"))),
)

beta_objects = nodepools_beta | node_claims_beta | node_classes_beta
current_objects = nodepools | node_claims | node_classes
