"""The smoke gate: starts one machine from an instance template, and waits for the verdict of its smoke check."""
