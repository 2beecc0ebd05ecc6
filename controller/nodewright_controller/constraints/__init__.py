"""The algebra: requirements, taints, instance types and offerings."""
