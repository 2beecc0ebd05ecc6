"""Commands that the controller's distribution adds to `nodewright`."""
