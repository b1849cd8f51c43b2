"""Where the manager keeps its memory and what it last saw, and what lets only one manager act at a time."""


class InUse(Exception):  # noqa: N818 - a state of the store
    """Another manager has the store, or has taken it over."""
