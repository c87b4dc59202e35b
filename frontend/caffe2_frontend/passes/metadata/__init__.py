"""Passes that write into the metadata of a model what its nodes do not show: operators, states, updates."""
