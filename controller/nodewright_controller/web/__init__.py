"""Metrics, health and the conversion webhook over HTTP."""
