"""Init nets: read parameters from fill operators, and write fill operators for parameters."""
