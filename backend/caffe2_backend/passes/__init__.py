"""The passes of the import."""
