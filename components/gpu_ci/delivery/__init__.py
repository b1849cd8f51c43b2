"""Decides whether a new model takes more traffic, and moves the traffic. Only `targets` talks to a service."""
