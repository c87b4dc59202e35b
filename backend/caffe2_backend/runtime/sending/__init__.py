"""Predictors and sessions on their way to other processes, in which they open when they are first used."""
