"""The command `gpu-smoke check`: find what works together, without a GPU, a driver or torch."""
