"""The machines of the laptop cluster: what an EC2 instance and its kubelet would do.

Four parts share one process (``python -m nodewright_local.kubelets``):

- the *joiner* turns a running EC2 instance into a Node, if its user data would really join it;
- the *pod runner* runs the controller's own pods as local processes;
- the *kubelet server* answers ``kubectl logs``;
- the *webhook forwarder* leads the API server to a Ready controller pod.

Every other pod and the heartbeats of the nodes are kwok's; EC2, IAM and EKS are those of
``nodewright_local.aws``.
"""
