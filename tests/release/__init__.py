"""The distributions of a release: building them, what they contain, and their use from outside the repository."""
