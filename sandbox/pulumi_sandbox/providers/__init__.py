"""Offline providers: what the engine takes for the plugins of gcp, aws, kubernetes and github."""
