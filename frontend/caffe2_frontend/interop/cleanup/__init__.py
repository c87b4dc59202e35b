"""Removal of nodes that are unused or computed twice."""
