"""The settings of a runner pool, except the settings of its machines (gcp/machine)."""
