"""Runtimes that a model is exported for: one table each, of what the runtime takes."""
