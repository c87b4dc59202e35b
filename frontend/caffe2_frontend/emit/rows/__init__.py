"""Rows of tensors: segments, lookups, and updates by index."""
