"""Blobs and tensors, as objects that refer to a workspace, and what they share with torch."""
