"""Simulation of queued GPU jobs with limited spot availability: our policy and those of other managers on equal
histories.
"""
