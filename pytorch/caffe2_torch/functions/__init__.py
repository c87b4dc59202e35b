"""Functions of tensors that operators have in common; the source of a module holds copies of those that it needs.

They may use torch, math and one another alone.
"""
