"""The cluster's DNS for a Python program in a container of the sandbox; standard library only, loaded by `site`.

Names of pods behind the headless Service of the program's own pod are answered from a file; all others as ever.
"""

from __future__ import annotations

import os
import socket
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

# The names there are, as `<host>.<service> <address>`, one in a line; and the Service.
NAMES = os.environ.get("PULUMI_SANDBOX_NAMES")
SERVICE = os.environ.get("PULUMI_SANDBOX_SERVICE")
_elsewhere = socket.getaddrinfo


def answer(host: Any, *more: Any, **named: Any) -> Any:
    """What socket.getaddrinfo answers in a pod, where `a-0.check` and `a-0.check.ci.svc.cluster.local.` are one."""
    labels = str(host).split(".")
    if labels[1:2] != [SERVICE]:
        return _elsewhere(host, *more, **named)
    known = dict(line.split() for line in Path(str(NAMES)).read_text().splitlines())
    if (found := known.get(".".join(labels[:2]))) is None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _elsewhere(found, *more, **named)


if NAMES:
    socket.getaddrinfo = answer

# The image may have one of these of its own, which is loaded as if this one were not there.
sys.path[:] = [path for path in sys.path if Path(path).absolute() != Path(__file__).absolute().parent]
found = PathFinder.find_spec("sitecustomize", sys.path)
if found and found.loader:
    found.loader.exec_module(module_from_spec(found))
