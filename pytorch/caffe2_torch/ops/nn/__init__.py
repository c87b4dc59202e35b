"""Families of this room, one a file."""
