"""GitHub's webhook as a hint: an event starts the next sweep early, and its content is not used for decisions."""
