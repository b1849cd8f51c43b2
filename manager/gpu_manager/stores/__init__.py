"""Stores of the manager's memory and of its published view, in a file or in Cloud Storage.

The lock of the file, or a lease in Cloud Storage, lets only one manager act at a time. A lease is a lock that ends by
itself if its holder does not renew it.
"""


class InUse(Exception):  # noqa: N818 - a state of the store
    """Another manager has the store, or has taken it over from this one."""
