"""Inputs that are kept if they reach code which none before them did."""
