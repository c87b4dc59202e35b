"""Arithmetic that layers and their gradients share."""
