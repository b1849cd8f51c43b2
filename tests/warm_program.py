"""Runs a Pulumi program in a fork of a process that has the SDKs imported: most of the CPU time of such a program.

The language host runs this file instead of the SDK's own script (PULUMI_SANDBOX_EXECUTOR). It sends its arguments,
folder, environment and streams to the server of this run of the tests, and ends as the program ends. Without a server,
or with other packages than the server's, it runs the program itself. All programs of the server have one hash seed, and
end without atexit; tests about that run AS_FOR_USERS (sandbox_runner.py).

    warm_program.py ARGUMENT...     what pulumi-language-python-exec takes
    warm_program.py --serve SOCKET  the server; it ends when its standard input closes
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

SOCKET = "GPU_CI_TESTS_WARM_PROGRAMS"
SCRIPT = "GPU_CI_TESTS_EXECUTOR"

# What takes time to load in the programs of the tests. An SDK loads a module when one of its attributes is asked for.
LOADED = (
    "pulumi_gcp.compute", "pulumi_gcp.projects", "pulumi_gcp.secretmanager", "pulumi_gcp.serviceaccount",
    "pulumi_gcp.storage", "pulumi_aws.ec2", "pulumi_aws.eks", "pulumi_aws.iam", "pulumi_kubernetes.core.v1",
    "pulumi_kubernetes.helm.v3", "pulumi_github", "gpu_ci.program", "gpu_ci.payload",
)  # fmt: skip


def start() -> subprocess.Popen[bytes]:
    """Start the server, which loads nothing before the first program; sandboxes of this process's children use it."""
    from pulumi_sandbox.engine import locate

    address = str(Path(tempfile.mkdtemp(prefix="warm-")) / "socket")
    os.environ |= {SOCKET: address, SCRIPT: str(locate.home() / "pulumi-language-python-exec")}
    return subprocess.Popen([sys.executable, "-u", __file__, "--serve", address], stdin=subprocess.PIPE, cwd="/")


def environment() -> dict[str, str]:
    """The variables with which a sandbox runs its programs so."""
    return {"PULUMI_SANDBOX_EXECUTOR": __file__} if SOCKET in os.environ else {}


def run() -> None:
    """Run the SDK's script in this process."""
    script = os.environ[SCRIPT]
    sys.argv[0] = script
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def handed_over() -> int | None:
    """The exit code of the program in the server's fork; None if this process has to run it."""
    connection = socket.socket(socket.AF_UNIX)
    asked = {"argv": sys.argv[1:], "cwd": str(Path.cwd()), "environ": dict(os.environ), "path": sys.path,
             "prefix": sys.prefix, "executable": sys.executable}  # fmt: skip
    content = json.dumps(asked).encode()
    streams = array.array("i", [0, 1, 2])
    with connection:
        try:
            connection.connect(os.environ[SOCKET])
            connection.sendmsg([len(content).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
            connection.sendall(content)
            answers = connection.makefile()
            if not answers.readline():
                return None
        except OSError:
            return None
        # It is started. A server that goes now takes the program with it, and it must not run twice.
        return int(answers.readline() or 1)


def serve(address: str) -> None:
    sys.path.pop(0)  # tests/, whose gpu_ci is not the package
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while 0 not in (ready := select.select([server, 0], [], [])[0]) or os.read(0, 1):
        if server not in ready:
            continue
        connection, _ = server.accept()
        load()
        if os.fork() == 0:
            server.close()
            keep(connection)
        connection.close()
    shutil.rmtree(Path(address).parent)


def load() -> None:
    if LOADED[0] in sys.modules:
        return
    for name in LOADED:
        hasattr(importlib.import_module(name), "__all__")
    payload = sys.modules["gpu_ci.payload"]
    payload.smoke_archive(), payload.agent_archive()
    gc.freeze()  # or each program would look through all of this for garbage, and copy it


def keep(connection: socket.socket) -> NoReturn:
    """Run one program in a child, tell how it ended, and end it when the one who asked for it is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    asked = json.loads(connection.makefile("rb").read(int.from_bytes(size, "big")))
    if not all(is_here(name, asked["path"]) for name in ("pulumi", "pulumi_gcp", "gpu_ci")):
        os._exit(0)  # without an answer the program runs where it was asked for
    connection.sendall(b"started\n")
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        connection.close()
        program(asked)
    for stream in (*streams, 0, 1, 2):
        os.close(stream)
    process = os.pidfd_open(child)
    ready, _, _ = select.select([process, connection], [], [])
    if process not in ready:
        with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
            os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if process in ready:
        connection.sendall(f"{code}\n".encode())
    os._exit(0)


def is_here(name: str, path: list[str]) -> bool:
    """Return whether an import with this path finds the package of this process."""
    found = importlib.machinery.PathFinder.find_spec(name, path)
    return found is not None and list(found.submodule_search_locations or ()) == list(sys.modules[name].__path__)


def program(asked: dict[str, Any]) -> NoReturn:
    """Be the process that was asked for."""
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    sys.argv, sys.path = ["", *asked["argv"]], asked["path"]
    sys.prefix = sys.exec_prefix = asked["prefix"]
    sys.executable = asked["executable"]
    code = 1
    try:
        run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else bool(ended.code)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    elif (code := handed_over()) is None:
        run()
    elif code < 0:
        os.kill(os.getpid(), -code)
    else:
        sys.exit(code)
