"""Data files of the laptop cluster; each states its source in README.md beside it."""
