"""Gradients of control flow: Do, If and While."""
