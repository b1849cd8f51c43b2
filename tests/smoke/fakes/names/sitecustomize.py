"""Change a Python program in a container of the sandbox: its cluster DNS.

The module `site` loads this file, which uses only the standard library.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

# The file with one name of a pod per line, as `<host>.<service> <address>`, and the name of the headless Service.
NAMES, SERVICE = os.environ.get("PULUMI_SANDBOX_NAMES"), os.environ.get("PULUMI_SANDBOX_SERVICE")

# The image may have its own sitecustomize module, which must still be loaded.
sys.path[:] = [path for path in sys.path if Path(path).absolute() != Path(__file__).absolute().parent]
found = PathFinder.find_spec("sitecustomize", sys.path)
if found and found.loader:
    found.loader.exec_module(module_from_spec(found))

_getaddrinfo: Any = socket.getaddrinfo


def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
    """Return the address of a pod of the Service; other names resolve as usual.

    The names `a-0.check` and `a-0.check.ci.svc.cluster.local.` are the same.
    """
    labels = str(host).split(".")
    if labels[1:2] != [SERVICE]:
        return _getaddrinfo(host, *arguments, **options)
    address_of_name = dict(line.split() for line in Path(str(NAMES)).read_text().splitlines())
    if (address := address_of_name.get(".".join(labels[:2]))) is None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _getaddrinfo(address, *arguments, **options)


if NAMES and SERVICE:
    socket.getaddrinfo = getaddrinfo
