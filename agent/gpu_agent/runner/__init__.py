"""GitHub's runner: its archive, its process and its hooks, and the isolation of its job from the machine's identity."""
