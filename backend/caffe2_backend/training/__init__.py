"""Training runs: batches, trainers, checkpoints, and what a run writes."""
