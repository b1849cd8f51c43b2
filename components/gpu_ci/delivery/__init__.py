"""Decides whether a new model takes more traffic, from counts of requests. No module talks to anything."""
