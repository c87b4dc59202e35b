"""The cheapest placement of operators on the host and GPUs, from measured or given costs."""
