"""Malformed inputs at every door: each call returns, or raises an error of the project, within its limits."""
