"""What runs on a runner's machine from power-on to power-off: one GPU check, one registration, one job, one reason."""
