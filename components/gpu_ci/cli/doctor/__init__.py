"""`gpu-ci doctor`: check a real environment before the first `pulumi up`."""
