"""What a pull request would change in its stacks, found out without an account: `gpu-ci preview`."""
