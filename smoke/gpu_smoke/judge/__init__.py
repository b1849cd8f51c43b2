"""The verdict: pure functions from what was measured to what it means."""
