"""Cloud Build: what a private pool and its triggers are made of."""
