"""Kubernetes objects as types, and every name of the drop-in contract."""
