"""The AWS edge."""
