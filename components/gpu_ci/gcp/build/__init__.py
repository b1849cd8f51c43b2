"""The arguments, rules and triggers of a Cloud Build private pool."""
