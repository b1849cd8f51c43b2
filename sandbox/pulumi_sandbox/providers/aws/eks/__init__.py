"""EKS: clusters and node groups."""
