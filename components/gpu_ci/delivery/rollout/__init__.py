"""Moves the traffic of an endpoint to a new model step by step. All state is on the endpoint."""
