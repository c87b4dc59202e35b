"""Processes that run models, one after another, with limits of time and memory."""
