"""The documentation site: its pages, its pictures, its tutorials."""
