"""Read, decide, act, patch once."""
