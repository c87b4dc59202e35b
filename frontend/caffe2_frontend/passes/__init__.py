"""The passes of the export pipeline, one a file."""
