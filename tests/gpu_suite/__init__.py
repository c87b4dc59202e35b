"""Prove the project on a CUDA GPU in one command (scripts/gpu): the wheels, the environment, the stages, the report."""
