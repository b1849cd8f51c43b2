"""The settings of a runner pool in addition to those of its machines."""
