"""What the core needs from the outside, and the errors it may answer."""
