"""Memory of inputs and outputs that stays bound from run to run."""
