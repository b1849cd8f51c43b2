"""The world: the emulated cloud state of one sandbox, with its resources, planted faults and events."""
