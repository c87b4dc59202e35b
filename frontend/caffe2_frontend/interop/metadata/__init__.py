"""What models record of the nets that they come from, and fingerprints."""
