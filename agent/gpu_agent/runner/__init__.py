"""GitHub's runner: its archive, process and hooks, and how its job is isolated from the machine's identity."""
