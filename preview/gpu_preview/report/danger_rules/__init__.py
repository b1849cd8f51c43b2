"""The rules of danger, one module for each sort of it."""
