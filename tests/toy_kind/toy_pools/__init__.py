"""A package outside of gpu-ci that adds a kind of pool."""
