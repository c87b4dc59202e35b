"""Passes over the bodies of loops: what they move out, merge and lay out otherwise."""
