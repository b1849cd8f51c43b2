"""Nodes and the scheduler: which pod fits which node, and the cluster autoscaler's new nodes."""
