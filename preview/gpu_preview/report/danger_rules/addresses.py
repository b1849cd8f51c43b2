"""Finds address ranges that are the whole Internet, or a large part of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

# 0.0.0.0/1 and 128.0.0.0/1 together are 0.0.0.0/0, so large parts count too. One company can own a /8.
_WIDEST = {4: 7, 6: 15}


def open_addresses(values: Any) -> list[str]:
    """Return the open addresses in a list, or in one address. Other values are left out."""
    found: Iterable[Any] = values if isinstance(values, list) else [values]
    return [each for each in found if isinstance(each, str) and is_open(each)]


def is_open(cidr: str) -> bool:
    """Return True if the range is the whole Internet or a large part of it."""
    try:
        network = ipaddress.ip_network(cidr.strip(), strict=False)
    except ValueError:
        return False
    return network.prefixlen <= _WIDEST[network.version] and not network.is_private
