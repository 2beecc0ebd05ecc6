"""Worlds given as files, taken through the decisions of the controller."""
