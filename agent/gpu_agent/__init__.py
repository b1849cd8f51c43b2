"""The boot agent of a runner's machine: one GPU check, one registration, one job, and one reported end."""
