"""Vertex AI: an endpoint with its deployed models and metrics, and custom jobs. The time is that of the caller."""
