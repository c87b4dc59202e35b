"""Nets run operator by operator, and the bodies of control operators."""
