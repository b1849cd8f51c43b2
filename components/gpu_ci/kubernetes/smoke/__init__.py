"""The check of nodes: its arguments and pod, and the discovery of pods on several nodes."""
