"""The nets that are measured, of any size, and the same in PyTorch."""
