"""Servers of files on loopback, for tests and for trials by hand."""
