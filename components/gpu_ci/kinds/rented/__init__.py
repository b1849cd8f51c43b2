"""The kind rented-runners: GPU runners on VMs of a vendor that rents out GPUs."""
