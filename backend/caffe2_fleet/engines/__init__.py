"""Engines: where the models of a fleet run."""
