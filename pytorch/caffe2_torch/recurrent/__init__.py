"""Recurrent nets as the recurrent layers of PyTorch."""
