"""Runs of a program again and again: what stays bound, prepared or computed later."""
