"""Read and write arrays in protobuf's wire format, without converting element by element."""
