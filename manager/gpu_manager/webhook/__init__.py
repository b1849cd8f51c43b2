"""GitHub's webhook as a hint: an event wakes the next sweep early, and nothing in it is believed."""
