"""The local cache of remote files: downloads, locks, eviction, settings."""
