"""What is amiss with the inputs and parameters of a net: missing, contradicted, or as before a training."""
