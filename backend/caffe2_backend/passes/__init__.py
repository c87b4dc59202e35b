"""The passes of the import, one per file."""
