"""Simulation of queued GPU jobs over spot availability: our policy and those of the peers, on the same histories."""
