"""EKS: clusters that are the laptop's own API server, and who may use them."""
