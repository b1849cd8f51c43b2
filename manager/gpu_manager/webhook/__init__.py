"""The webhook for GitHub's events. An event is a hint: it starts the next pass early, and decides nothing."""
