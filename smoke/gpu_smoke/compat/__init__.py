"""Rules and tables of the GPUs, drivers and torch wheels that work together."""
