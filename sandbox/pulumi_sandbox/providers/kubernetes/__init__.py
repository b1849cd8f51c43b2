"""The emulated Kubernetes: an API server, its controllers, a scheduler and Helm, without a cluster.

provider.py implements the hooks of a cloud. Inputs are checked by Kubernetes' schemas (schema/) and by rules/.
scheduling/ places pods on nodes. workloads/ runs Jobs and runners. helm/ knows some charts and their objects.
"""
