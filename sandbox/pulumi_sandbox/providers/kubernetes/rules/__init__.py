"""Rules of a Kubernetes API server for objects that no schema contains, with its messages."""
