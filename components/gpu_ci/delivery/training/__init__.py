"""Training jobs on Vertex AI: the settings and the request, and submit, wait and cancel."""
