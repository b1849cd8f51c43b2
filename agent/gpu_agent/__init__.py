"""The boot agent of a runner's machine: one smoke check, one registration, one job, and one reported end."""
