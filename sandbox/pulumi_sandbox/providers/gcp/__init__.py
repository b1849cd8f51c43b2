"""The emulated Google Cloud.

provider.py implements the hooks of a cloud. Inputs are checked by Google's discovery documents (discovery.py, with the
names in mapping/) and by rules.py. outputs/ computes ids and outputs. compute/ serves the Compute Engine API, and boots
VMs.
"""
