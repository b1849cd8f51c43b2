"""The kind cloud-build: workers of Cloud Build."""
