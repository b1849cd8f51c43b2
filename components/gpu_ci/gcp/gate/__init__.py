"""The gate: starts one machine from a template, and waits for the verdict on its GPU."""
