"""Pages of a batch: an index, and a page for each model, made from the records."""
