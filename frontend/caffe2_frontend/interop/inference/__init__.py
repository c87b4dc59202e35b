"""Inference of types and shapes, guarded against what ends the process."""
