"""Which GPUs, drivers and torch wheels work together."""
