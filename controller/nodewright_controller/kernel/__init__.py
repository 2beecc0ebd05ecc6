"""Values with no Kubernetes in them."""
