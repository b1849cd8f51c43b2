"""`gpu-smoke diagnose`: why a GPU cannot be used here, what was looked at, and the command to go on with."""
