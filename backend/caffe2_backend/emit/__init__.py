"""Building blocks that several families of importers emit."""
