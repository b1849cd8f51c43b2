"""A package outside of gpu-ci with a component around a Helm chart."""
