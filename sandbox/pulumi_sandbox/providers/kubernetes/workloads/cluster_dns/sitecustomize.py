"""Emulate cluster DNS for a Python program in a container of the sandbox.

The module `site` loads this file, which uses only the standard library. A file lists the names of the pods behind the
headless Service of the program's own pod. All other names resolve as usual.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

# The file with one name per line, as `<host>.<service> <address>`, and the name of the Service.
NAMES = os.environ.get("PULUMI_SANDBOX_NAMES")
SERVICE = os.environ.get("PULUMI_SANDBOX_SERVICE")
_system_getaddrinfo = socket.getaddrinfo


def answer(host: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of socket.getaddrinfo in a pod.

    The names `a-0.check` and `a-0.check.ci.svc.cluster.local.` are the same.
    """
    labels = str(host).split(".")
    if labels[1:2] != [SERVICE]:
        return _system_getaddrinfo(host, *arguments, **options)
    address_of_name = dict(line.split() for line in Path(str(NAMES)).read_text().splitlines())
    if (address := address_of_name.get(".".join(labels[:2]))) is None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _system_getaddrinfo(address, *arguments, **options)


if NAMES:
    socket.getaddrinfo = answer

# The image may have its own sitecustomize module, which must still be loaded.
sys.path[:] = [path for path in sys.path if Path(path).absolute() != Path(__file__).absolute().parent]
found = PathFinder.find_spec("sitecustomize", sys.path)
if found and found.loader:
    found.loader.exec_module(module_from_spec(found))
