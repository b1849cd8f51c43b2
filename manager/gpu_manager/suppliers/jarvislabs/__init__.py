"""Jarvis Labs: rented VMs of the manager in the regions of its pools. Their channel is a mailbox in a bucket."""
