"""The command `gpu-smoke diagnose`: find out why a GPU cannot be used, with the command to run next."""
