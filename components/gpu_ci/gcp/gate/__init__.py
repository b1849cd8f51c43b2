"""The gate: one machine started from a template, and the verdict on its GPU."""
