"""EC2: launch templates and instance types."""
