"""The emulated Google Cloud.

provider.py implements the hooks of a cloud. Inputs are checked by Google's discovery documents (discovery.py, with the
names in types.toml). outputs.py and gke.py compute ids and outputs. compute/ serves the Compute Engine API.
"""
