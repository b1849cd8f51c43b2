"""All code that calls a driver or torch. It runs in worker processes and returns plain numbers, which judge/ judges."""
