"""Python source of nets: a module as a person would write it, which imports PyTorch alone."""
