"""The models of a fleet: found under a folder, or listed by a manifest."""
