"""Facts about GPUs, each with its source."""
