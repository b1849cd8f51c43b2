"""Sandbox providers, which the engine runs as the plugins of gcp, aws, kubernetes and github."""
