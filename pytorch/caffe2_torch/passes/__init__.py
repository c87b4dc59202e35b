"""The passes of a conversion to PyTorch, one a file."""
