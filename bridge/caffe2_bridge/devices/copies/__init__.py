"""Copies between devices: inserted where an operand is elsewhere, and removed where they are redundant."""
