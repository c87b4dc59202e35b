"""The passes of the export, one per file."""
