"""The smoke check of Kubernetes nodes: its arguments, its pods, and the explanation of a failure."""
