"""`gpu-smoke check`: what goes together, asked without a GPU, a driver or torch."""
