"""The processes of a run: the parent, and the worker processes that alone touch a driver or torch."""
