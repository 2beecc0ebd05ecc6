"""One NodeClaim or Node and its next step, as pure tables."""
