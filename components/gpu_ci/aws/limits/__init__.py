"""Changes of a node group's maximum size, and of its zone balancing."""
