"""Converters of gradient operators, in families that mirror the forward ones."""
