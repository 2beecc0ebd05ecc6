"""The Pulumi program of Nodewright, for all environments."""
