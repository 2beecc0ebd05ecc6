"""Pending pods become placements and new nodes."""
