"""Compute Engine: the manager's machines and their operations."""
