"""Running nodes become disruption commands."""
