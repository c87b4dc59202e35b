"""Placement of nets without device options on a GPU: what runs there, what stays on the host, and why."""
