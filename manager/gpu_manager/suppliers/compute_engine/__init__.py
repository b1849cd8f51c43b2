"""Compute Engine: the manager's machines, their operations, and the channel to them."""
