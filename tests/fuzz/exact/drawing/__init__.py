"""Draw cases: recorded ones, changed, and random programs."""
