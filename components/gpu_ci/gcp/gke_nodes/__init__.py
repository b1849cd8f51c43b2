"""The parts of gcp.GkeGpuNodePool: its arguments and rules, the version of the cluster, and the service account."""
