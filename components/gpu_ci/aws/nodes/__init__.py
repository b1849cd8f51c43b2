"""A managed node group with GPUs: its arguments, the rules they are held to, and its parts."""
