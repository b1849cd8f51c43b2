"""GPU capacity on Kubernetes clusters, whichever cloud they are in."""
