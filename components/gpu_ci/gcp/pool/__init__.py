"""What a runner pool adds to its machines."""
