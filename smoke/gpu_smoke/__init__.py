"""Check that a machine's GPUs can take jobs: run kernels on them and check the numbers."""

__version__ = "0.1.0"
