"""Symbolic dims of a finished graph: which are equal, which are numbers, what they are called, and shape completion."""
