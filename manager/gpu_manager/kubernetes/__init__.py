"""Reasons why jobs of pools on Kubernetes wait, from the objects of the cluster. The manager starts nothing there."""
