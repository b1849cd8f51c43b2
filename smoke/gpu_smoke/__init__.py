"""Decides whether a machine's GPUs may take jobs, by running kernels on them and checking the numbers."""

__version__ = "0.1.0"
