"""GPU capacity on Kubernetes clusters of any cloud."""
