"""The check of nodes: its pod, and how the pods of several nodes find each other."""
