"""Validation of many models, each in a process of its own."""
