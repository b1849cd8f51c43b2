"""The emulated Kubernetes: an API server, its controllers, a scheduler and Helm, without a cluster.

provider.py implements the hooks of a cloud. Inputs are checked by Kubernetes' schemas (validation.py).
scheduling/ places pods on nodes. workloads/ runs Jobs. helm/ knows some charts and their objects.
"""
