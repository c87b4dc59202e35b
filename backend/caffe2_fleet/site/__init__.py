"""The site of a fleet: an index, a page for each model, causes and trends, made from the records."""
