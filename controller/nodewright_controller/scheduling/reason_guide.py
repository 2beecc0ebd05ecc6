"""What each reason of a pod means, where to look, and what to do about it, for a person on call.

Beside `scheduling.reasons`, which has code and sentence; read by the reference and by
`nodewright why code`. Words in capitals stand for what the line names. What helps a certain pod is
proven by `scheduling.fixes`; here is what helps in general.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nodewright_controller.scheduling.reasons import Reason


@dataclass(frozen=True, slots=True)
class Guide:
    """What to know about a reason."""

    cause: str
    """What was checked, and what it means that it failed."""
    check: str
    """Where to look."""
    cure: str
    """What to do."""


_POOL: Final = "`kubectl get nodepool POOL -o yaml`"
_POD: Final = "`kubectl get pod POD -n NAMESPACE -o yaml`"
_CLAIM: Final = "`kubectl describe pvc CLAIM -n NAMESPACE`"
_TREE: Final = "`nodewright why pod NAMESPACE/POD`"

_SHAPE: Final[Mapping[Reason, Guide]] = {
    Reason.CONFLICT: Guide(
        "The pod's node selector or required node affinity asks for a value of this label that"
        " the NodePool, or every instance type in it, does not offer.",
        f"`nodeSelector` and `affinity.nodeAffinity` in {_POD},"
        f" `spec.template.spec.requirements` in {_POOL}.",
        "Let the pod ask for a value that is offered, or allow the value in the NodePool's"
        " requirements. If the pod is meant for another NodePool, look at what that one says.",
    ),
    Reason.UNKNOWN_LABEL: Guide(
        "The pod asks for a label that neither the NodePool nor any instance type in it gives a"
        " node. Often it is misspelt; if a similar label is known, the line names it.",
        f"`spec.template.metadata.labels` and `spec.template.spec.requirements` in {_POOL};"
        " `kubectl get nodes --show-labels`.",
        "Correct the label in the pod, or add it to the NodePool under"
        " `spec.template.metadata.labels`.",
    ),
    Reason.TAINT: Guide(
        "The NodePool puts this taint on its nodes, and the pod does not tolerate it. Taints in"
        " `startupTaints` do not count, because somebody takes them away.",
        f"`spec.template.spec.taints` in {_POOL}, `spec.tolerations` in {_POD}.",
        "If the pod is meant for this NodePool, give it the toleration. If not, this is as it"
        " should be, and the reasons of the other NodePools count.",
    ),
    Reason.TOO_LARGE: Guide(
        "The pod asks for more of one resource than the largest instance type that the NodePool"
        " allows has left beside DaemonSets and what the kubelet keeps.",
        f"`resources.requests` of all containers in {_POD}; the instance types in"
        f" `spec.template.spec.requirements` of {_POOL}.",
        "Ask for at most what the line says there is, or allow larger instance types in the"
        " NodePool.",
    ),
    Reason.NO_TYPE: Guide(
        "No instance type of the NodePool has this resource (a GPU, for example), or none has all"
        " that the pod asks for at once, though each by itself can be had.",
        f"The row `needs` of {_TREE}; `spec.template.spec.requirements` in {_POOL}.",
        "Allow instance types that have it, or make a NodePool for them. Where the line says"
        " `at once`, ask for less of one of the resources or drop one of the rules.",
    ),
    Reason.NO_OFFERING: Guide(
        "Instance types that are large enough exist, but none is sold in the zones and capacity"
        " types that pod and NodePool allow together.",
        "`kubectl get ec2nodeclass CLASS -o yaml`: only zones under `status.subnets` count;"
        " `topology.kubernetes.io/zone` and `karpenter.sh/capacity-type` in pod and NodePool.",
        "Allow another zone or capacity type, or other instance types. If a zone is missing, let"
        " `subnetSelectorTerms` of the EC2NodeClass select a subnet there.",
    ),
    Reason.HOST_PORT: Guide(
        "The pod wants a port of the host that a DaemonSet takes on every node of the NodePool,"
        " new ones too.",
        f"`ports[].hostPort` in {_POD}; the same in the DaemonSet that the line names.",
        "Give up the host port (a Service does without) or take another. Else keep the DaemonSet"
        " off one NodePool with a node affinity, and select that NodePool in the pod.",
    ),
    Reason.CONTRADICTION: Guide(
        "Node selector and node affinity of the pod exclude each other, so no node can ever do,"
        " whatever NodePools there are.",
        f"All rules about the label in `nodeSelector` and `affinity.nodeAffinity` of {_POD}.",
        "Take one of them away. Look for one that a webhook, or the chart the pod comes from,"
        " has added.",
    ),
    Reason.INVALID: Guide(
        "A field of the pod that scheduling needs cannot be read: a quantity, a selector or the"
        " value of a comparison. Other pods are not held up by it.",
        f"The field that the line names in {_POD}.",
        "Correct it where the pod comes from (Deployment, chart, webhook) and let the pod be made"
        " anew.",
    ),
    Reason.RESOURCE_CLAIMS: Guide(
        "The pod uses dynamic resource allocation (`spec.resourceClaims`). No nodes are made for"
        " such pods; kube-scheduler may still place them on nodes that are there.",
        "`kubectl get resourceclaims -n NAMESPACE`, `kubectl get resourceslices`.",
        "Run nodes with the devices by a NodePool with `replicas` or a managed node group, or ask"
        " for an extended resource such as `nvidia.com/gpu` instead.",
    ),
    Reason.NO_POOL_WANTED: Guide(
        "Every alternative of the pod's node affinity says that `karpenter.sh/nodepool` must not"
        " exist, so it wants nodes that are not ours.",
        f"`affinity.nodeAffinity` in {_POD}.",
        "Make room on the nodes that it wants (a managed node group, for example), or take the"
        " rule away if a new node may do.",
    ),
    Reason.RESTRICTED_LABEL: Guide(
        "The pod asks for a label in a domain that Karpenter keeps for itself, and it is none of"
        " those that nodes get.",
        f"`nodeSelector` and `affinity.nodeAffinity` in {_POD}.",
        "Use a domain of your own for the label, and set it in the NodePool under"
        " `spec.template.metadata.labels`. If a well-known label was meant, such as"
        " `karpenter.sh/capacity-type`, correct the spelling.",
    ),
    Reason.CLOSED_VALUE: Guide(
        "The pod asks for a value that this label can never have.",
        f"`nodeSelector` and `affinity.nodeAffinity` in {_POD}.",
        "Write one of the values that the line lists.",
    ),
    Reason.BY_FIELD: Guide(
        "The pod's node affinity selects by `matchFields`, that is, one node by name. A node that"
        " is yet to come cannot promise that.",
        f"`matchFields` in {_POD}; `kubectl get node NODE`.",
        "Select by label. If the one node is meant, and kube-scheduler does not use it, its own"
        " `FailedScheduling` event says why.",
    ),
    Reason.HOST_WANTED: Guide(
        "The pod asks for `kubernetes.io/hostname` of one node, and a new node has a name of its"
        " own. Often a local volume or an old manifest ties it there.",
        "`kubectl get nodes -l kubernetes.io/hostname=HOST`, and whether it has room.",
        "If the node is gone for good, take the rule away. If it is there, make room on it.",
    ),
}

_PLACE: Final[Mapping[Reason, Guide]] = {
    Reason.CLAIM_NOT_FOUND: Guide(
        "A volume of the pod names a PersistentVolumeClaim that is not there, so nobody knows"
        " where the pod could run.",
        "`kubectl get pvc -n NAMESPACE`, and the events of whoever should make it.",
        "Create the claim, or correct `claimName`. Claims of StatefulSets and ephemeral volumes"
        " appear by themselves after a moment.",
    ),
    Reason.CLAIM_IMMEDIATE: Guide(
        "The claim's StorageClass has `volumeBindingMode: Immediate`: its volume is made first,"
        " and the pod's zone follows from it. The volume is not there yet.",
        f"The events in {_CLAIM}; the logs of the CSI controller.",
        "Find out from the events why no volume is made. For the next one, use a StorageClass with"
        " `WaitForFirstConsumer`, so that the volume follows the pod.",
    ),
    Reason.VOLUME_PLACE: Guide(
        "The volume lies in one zone, or its StorageClass allows certain zones only, and the"
        " NodePool makes no nodes there.",
        f"`Node Affinity` in `kubectl describe pv VOLUME`; the zones in {_POOL} and under"
        " `status.subnets` of its EC2NodeClass.",
        "Allow the zone in the NodePool, with a subnet there in the EC2NodeClass. An EBS volume"
        " cannot move; a snapshot can be restored in another zone.",
    ),
    Reason.SPREAD: Guide(
        "By a topology spread constraint with `DoNotSchedule` only certain domains may take one"
        " more pod, and the NodePool has no node to offer there.",
        f"`topologySpreadConstraints` in {_POD}; the counts per domain in the line. A pod without"
        " any may have got one by default from `schedulerConfig`.",
        "Allow the missing domain in the NodePool. Else raise `maxSkew`, or use `ScheduleAnyway`"
        " if the spread is a wish. `nodeTaintsPolicy: Honor` leaves out domains that the pod"
        " cannot reach.",
    ),
    Reason.ANTI_AFFINITY: Guide(
        "Every domain (zone, for example) that a new node could be in has a pod that this one must"
        " not be with, or that must not be with this one.",
        f"`podAntiAffinity` in {_POD} and in the pods that run there.",
        "Allow more zones, use `kubernetes.io/hostname` as topology key, or make the rule a"
        " preference. By zone, a required rule against its own kind allows one pod per zone.",
    ),
    Reason.AFFINITY: Guide(
        "The pod must run beside pods with these labels, and no such pod is in a place where the"
        " NodePool can put a node; none may be running at all.",
        "`kubectl get pods -A -l SELECTOR -o wide`, and in which zone they run.",
        "Start the other pods first, correct the selector (namespaces count), or allow their zone."
        " With `kubernetes.io/hostname` no new node will do: make room on theirs, or use the zone.",
    ),
    Reason.ATTACH_LIMIT: Guide(
        "The pod has more volumes of this CSI driver than any instance type of the NodePool"
        " attaches.",
        f"`volumes` in {_POD}.",
        "Allow instance types that attach more, split the pod, or put several data sets on one"
        " volume.",
    ),
    Reason.CLAIM_UNUSABLE: Guide(
        "The pod's volume claim is there and cannot be used: it is being deleted, has lost its"
        " volume, or names a volume or StorageClass that does not exist.",
        _CLAIM + ".",
        "Repair what the line names: create the StorageClass or volume, or delete the claim and"
        " let it be made anew. What is on a lost volume must come from a backup.",
    ),
}

_NODE_POOL: Final[Mapping[Reason, Guide]] = {
    Reason.LIMIT: Guide(
        "The NodePool's nodes, with those on their way, leave less under `spec.limits` than the"
        " smallest instance type that would do. Whole instances count, not the pods' requests.",
        f"`spec.limits` and `status.resources` in {_POOL}.",
        "Raise the limit if the money is meant to be spent, allow smaller instance types, or wait"
        " until nodes go.",
    ),
    Reason.NODE_LIMIT: Guide(
        "The NodePool has as many nodes as `spec.limits.nodes` allows, with those on their way.",
        f"`spec.limits.nodes` in {_POOL}; `kubectl get nodeclaims -l karpenter.sh/nodepool=POOL`.",
        "Raise the limit, or allow larger instance types so that fewer nodes do.",
    ),
    Reason.MIN_VALUES: Guide(
        "After all rules fewer different values of the label are left than `minValues` in the"
        " NodePool asks for, so no node is made with less choice.",
        f"`minValues` in {_POOL}; what narrows the choice in {_TREE}.",
        "Allow more values in the NodePool, narrow the pod less, or lower `minValues`. The"
        " controller's setting `MIN_VALUES_POLICY=BestEffort` makes it a wish.",
    ),
    Reason.NOT_READY: Guide(
        "The NodePool may not make nodes now: it or its EC2NodeClass is not Ready, its prices"
        " cannot be had, or it is being deleted.",
        "The conditions in `kubectl describe nodepool POOL` and `kubectl describe ec2nodeclass"
        " CLASS`.",
        "Repair what the condition names: subnets, security groups, images, role or a field."
        " It is tried again by itself.",
    ),
    Reason.NO_TYPES: Guide(
        "The NodePool's own requirements exclude every instance type of the region, whatever pod"
        " asks.",
        f"`spec.template.spec.requirements` in {_POOL}, all of them together; `status.subnets` and"
        " `status.amis` of its EC2NodeClass.",
        "Find the requirement that excludes too much and widen it; a misspelt instance type, zone"
        " or architecture is the usual one.",
    ),
    Reason.NO_POOLS: Guide(
        "There is no NodePool, or only ones with `replicas`, which make a fixed number of nodes"
        " and none for pods.",
        "`kubectl get nodepools`.",
        "Create a NodePool without `replicas`.",
    ),
}

_CLOUD: Final[Mapping[Reason, Guide]] = {
    Reason.OUT_OF_STOCK: Guide(
        "EC2 refused all that would do within the last minutes: no capacity, a quota that is used"
        " up, or subnets without addresses. Each is tried again after three minutes.",
        "The controller's log about the last launches; Service Quotas, and free addresses of the"
        " subnets.",
        "Allow more instance types, zones or capacity types. For a quota ask AWS for more; for"
        " addresses select another subnet.",
    ),
    Reason.RESERVED_ONLY: Guide(
        "Pod and NodePool together allow nothing but capacity type `reserved`, and every"
        " reservation that is selected is used up.",
        "`status.capacityReservations` in `kubectl get ec2nodeclass CLASS -o yaml`.",
        "Allow `on-demand` or `spot` beside it, enlarge the reservation, or wait until an instance"
        " in it ends.",
    ),
    Reason.NO_IMAGE: Guide(
        "Instance types that would do exist, but the EC2NodeClass has no image that boots on them:"
        " of their architecture, or with their accelerator's drivers.",
        "`status.amis` and `spec.amiSelectorTerms` in `kubectl get ec2nodeclass CLASS -o yaml`.",
        "Select an image for them in `amiSelectorTerms`, or take them out of the NodePool.",
    ),
}

_WAITING: Final[Mapping[Reason, Guide]] = {
    Reason.RESERVATION_PENDING: Guide(
        "What is left of the capacity reservation is promised to other pods of this round, or is"
        " used up and nothing else is allowed. Nothing dearer is bought for the pod meanwhile.",
        "`status.capacityReservations` in `kubectl get ec2nodeclass CLASS -o yaml`.",
        "Wait for the next round. If it lasts, the reservation is full: allow `on-demand` beside"
        " `reserved` in the same NodePool, or enlarge the reservation.",
    ),
    Reason.OUT_OF_TIME: Guide(
        "The batch was so large that its round ended, after a minute, before the pod's turn. Nodes"
        " for the others are on their way.",
        "`karpenter_scheduler_queue_depth` and `karpenter_scheduler_scheduling_duration_seconds`.",
        "Nothing: the next round follows at once. If it happens again and again, give the"
        " controller more cpu.",
    ),
    Reason.GATED: Guide(
        "The pod has a scheduling gate, so kube-scheduler does not look at it, and no node is made"
        " for it.",
        f"`spec.schedulingGates` in {_POD}.",
        "Nothing here: whoever set the gate removes it, such as a queue (Kueue) or a quota"
        " controller. Look at its log if the gate stays.",
    ),
    Reason.CLAIM_COMING: Guide(
        "A NodeClaim was made for the pod, and its node is not in use yet. The line says how far"
        " it is: launching, launched, joined, ready.",
        "`kubectl describe nodeclaim NODECLAIM`: its conditions and events.",
        "Wait: a node mostly takes about a minute. One that has not joined after 15 minutes is"
        " given up; then look at its console output, user data, role and network.",
    ),
    Reason.NOT_TAKEN: Guide(
        "A node was bought for the pod, came up, and the pod is not on it: too small when empty, a"
        " taint that nobody declared, or kube-scheduler did not use it. The same is not bought"
        " again for this pod for a while, which doubles each time.",
        "The node's allocatable and taints (`kubectl describe node NODE`), and what kube-scheduler"
        " says in the pod's `FailedScheduling` event.",
        "For a taint, declare it under `startupTaints` of the NodePool. For too little room, see"
        " what takes it on a new node (kubelet settings, DaemonSets). Else find the rule of"
        " kube-scheduler that keeps the pod off.",
    ),
    Reason.NEVER_JOINED: Guide(
        "NodeClaims made for the pod ended before their node was ready. The NodePool is not used"
        " for this pod again for a while, which doubles each time.",
        "The controller's log about the NodeClaims that ended, and the console output of the"
        " instance.",
        "Repair what keeps nodes from joining: user data, image, the node role's access entry, or"
        " the way to the cluster's endpoint. If nothing was launched, see P401.",
    ),
    Reason.PLANNED: Guide(
        "The solver would make this node for the pod now. The round that does it is not over, or"
        " has not begun.",
        "`kubectl get nodeclaims`: a new one follows within seconds.",
        "Nothing. If it stays so, see in the controller's log whether it can make NodeClaims.",
    ),
    Reason.ROOM: Guide(
        "A node that runs, or is about to, has room for the pod, so none is bought.",
        "`kubectl describe node NODE`; the pod's newest event from kube-scheduler.",
        "Nothing: kube-scheduler binds it within seconds. If it does not, its event names a rule"
        " of its own, such as a profile or plugin of yours.",
    ),
    Reason.PREEMPTING: Guide(
        "kube-scheduler makes room for the pod by removing pods of lower priority from this node,"
        " so no node is made.",
        "`kubectl get pods -A --field-selector spec.nodeName=NODE`: those that are terminating.",
        "Wait until they are gone; `terminationGracePeriodSeconds` is how long that may take.",
    ),
    Reason.NOT_TOLD: Guide(
        "The pod is new, or no kube-scheduler looks at it. A node is made only after"
        " kube-scheduler has said `Unschedulable`.",
        f"`spec.schedulerName` and the condition `PodScheduled` in {_POD}.",
        "Nothing in the first seconds. If it stays so, the scheduler that the pod names does not"
        " run: correct the name or start it.",
    ),
    Reason.BOUND: Guide(
        "The pod has its node; what it waits for now, if anything, is not a node.",
        "`kubectl describe pod POD -n NAMESPACE`: pulling the image, mounting volumes, probes.",
        "Nothing here.",
    ),
    Reason.ENDED: Guide(
        "The pod has run to its end and needs no node any more.",
        "`kubectl logs POD -n NAMESPACE`.",
        "Nothing here.",
    ),
    Reason.DELETING: Guide(
        "Somebody has deleted the pod, so no node is made for it.",
        f"`metadata.deletionTimestamp` and `metadata.finalizers` in {_POD}.",
        "Nothing here. If it does not go away, a finalizer or a kubelet that is gone holds it.",
    ),
    Reason.DAEMON: Guide(
        "The pod belongs to a DaemonSet, or to one node as its static pod. It runs on nodes that"
        " are there for other pods; what it takes is reckoned with when these are chosen.",
        "`kubectl describe pod POD -n NAMESPACE`: kube-scheduler says what its node lacks.",
        "If the node is full, give the DaemonSet a priority class so that it comes first.",
    ),
}

GUIDE: Final[Mapping[Reason, Guide]] = {**_SHAPE, **_PLACE, **_NODE_POOL, **_CLOUD, **_WAITING}
"""Every reason, by code."""
