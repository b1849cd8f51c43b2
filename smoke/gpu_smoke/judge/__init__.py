"""The verdict: pure functions that turn measurements into checks."""
