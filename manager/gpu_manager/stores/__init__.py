"""Storage of the manager's memory and published state, with a lock or a lease that lets only one manager act
at a time.
"""


class InUse(Exception):  # noqa: N818 - a state of the store
    """Another manager has the store, or has taken it over."""
