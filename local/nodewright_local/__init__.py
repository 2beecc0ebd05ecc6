"""The laptop cluster: a real control plane, an AWS stand-in and kubelets, without containers."""
