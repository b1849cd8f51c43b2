"""The emulated Compute Engine API, and the VMs that its clients insert."""
