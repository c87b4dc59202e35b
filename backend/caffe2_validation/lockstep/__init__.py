"""Lock-step comparison: find the first operator that differs."""
