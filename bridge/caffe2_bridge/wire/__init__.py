"""Decode and encode arrays in protobuf's wire format, vectorized."""
