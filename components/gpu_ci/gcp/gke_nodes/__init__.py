"""The parts of gcp.GkeGpuNodePool: its arguments and rules, and the room for pods."""
