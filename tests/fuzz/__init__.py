"""Fuzzers: each searches for inputs that break one promise of the project."""
