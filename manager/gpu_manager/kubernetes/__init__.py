"""Jobs of pools on Kubernetes: why one waits, as the cluster's objects show it. The manager starts nothing there."""
