"""The stages that are programs of their own."""
