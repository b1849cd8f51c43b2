"""The processes of a run: the parent, and the workers. Only workers call a driver or torch."""
