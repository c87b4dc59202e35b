"""Blobs of a run: the store of a workspace, what is fed, the results, and the frames that nets read and write."""
