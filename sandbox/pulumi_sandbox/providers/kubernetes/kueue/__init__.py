"""Kueue in the emulated cluster: its objects, and the pods that wait for quota."""
