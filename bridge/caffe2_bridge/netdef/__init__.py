"""Read-only views of NetDefs and their operators, arguments, names and parameters."""
