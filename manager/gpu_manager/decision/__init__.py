"""Decisions of a pass: pure functions from the observation and the memory to actions."""
