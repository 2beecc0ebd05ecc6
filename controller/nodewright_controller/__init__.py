"""The Nodewright controller: pure decisions wrapped in thin loops."""
