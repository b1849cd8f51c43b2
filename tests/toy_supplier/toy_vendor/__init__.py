"""A package outside of gpu-ci that adds a supplier of machines."""
