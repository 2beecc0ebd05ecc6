"""What we believe about the cluster."""
