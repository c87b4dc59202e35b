"""Runs of nets, operators and plans, and what is observed of them."""
