"""Pods that run: Jobs with their containers, and the runners of scale sets."""
