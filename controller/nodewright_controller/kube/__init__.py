"""The API server edge."""
