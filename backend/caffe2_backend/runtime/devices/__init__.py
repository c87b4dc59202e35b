"""Devices by name, the CUDA driver and the CUDA libraries."""
