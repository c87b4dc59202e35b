"""Generation of inputs and missing weights for models."""
