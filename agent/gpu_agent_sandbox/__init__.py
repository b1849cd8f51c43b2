"""Emulation of a machine of the boot agent's, for the sandbox: never part of what a real machine gets."""
