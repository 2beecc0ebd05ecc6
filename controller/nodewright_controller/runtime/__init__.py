"""Asyncio machinery that knows no Kubernetes kinds."""
