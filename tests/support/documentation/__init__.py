"""The code blocks of the documentation, and the files that they name."""
