"""Nets ready to run: cut into stages, one after another on the blobs of a workspace."""
