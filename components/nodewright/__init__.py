"""Pulumi components and command line of Nodewright."""
