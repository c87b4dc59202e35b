"""Operators as functions of tensors, and the programs that run them."""
