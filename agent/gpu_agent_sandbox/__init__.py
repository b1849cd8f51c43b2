"""Emulation of a boot agent's machine for the sandbox. A real machine never contains it."""
