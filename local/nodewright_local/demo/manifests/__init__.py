"""The walkthrough's two manifests, as a user of the old API wrote them."""
