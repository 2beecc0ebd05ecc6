"""One handler class for each resource type, grouped by AWS service."""
