"""Which addresses are the whole Internet, or so much of it that nobody is kept out."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

# 0.0.0.0/1 and 128.0.0.0/1 are together what 0.0.0.0/0 is, so large parts count too: /8 is what one company may have.
_WIDEST = {4: 7, 6: 15}


def open_ones(values: Any) -> list[str]:
    """Those among addresses, or the one, that are open to the Internet; anything that is no address is not."""
    found: Iterable[Any] = values if isinstance(values, list) else [values]
    return [each for each in found if isinstance(each, str) and is_open(each)]


def is_open(cidr: str) -> bool:
    try:
        network = ipaddress.ip_network(cidr.strip(), strict=False)
    except ValueError:
        return False
    return network.prefixlen <= _WIDEST[network.version] and not network.is_private
