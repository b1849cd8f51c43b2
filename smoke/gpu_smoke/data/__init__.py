"""Facts about GPUs, each with where it comes from."""
