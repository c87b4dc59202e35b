"""Building blocks that several families of converters emit."""
