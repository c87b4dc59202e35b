"""What commands write: tables and summaries on terminals and in pipes, pages, and arrays in files."""
