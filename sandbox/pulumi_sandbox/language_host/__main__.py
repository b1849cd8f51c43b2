"""Start a language host. The engine runs it as `pulumi-language-python` or `pulumi-language-nodejs`."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import signal
import sys
import threading
import types


def protocol_only() -> None:
    """Make `pulumi.runtime.proto` importable without the rest of the SDK, whose import takes 0.4 s."""
    found = importlib.util.find_spec("pulumi")
    if found is None or not found.submodule_search_locations:
        sys.exit(f"pulumi-language-python: the Pulumi SDK is not installed\n  got: {sys.executable}\n"
                 "  expected: a Python environment with the package `pulumi`")  # fmt: skip
    folder = found.submodule_search_locations[0]
    for name, path in (("pulumi", folder), ("pulumi.runtime", f"{folder}/runtime")):
        module = types.ModuleType(name)
        module.__path__ = [path]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module


def main() -> None:
    protocol_only()
    from pulumi_sandbox import processes
    from pulumi_sandbox.language_host.host import serve
    from pulumi_sandbox.language_host.nodejs import NodejsHost
    from pulumi_sandbox.language_host.server import LanguageHost

    # The engine passes its own options (--tracing, -v) first and its address last.
    positional = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    kind = NodejsHost if "--nodejs" in sys.argv else LanguageHost
    host = kind(positional[-1] if positional else "")
    server, port = serve(host)
    ended = threading.Event()

    def stop(*_: object) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    processes.when_orphaned(stop)
    print(port, flush=True)  # noqa: T201 - the engine reads the port from standard output
    ended.wait()
    host.close(patience=3.0)
    server.stop(None)
    # Exit without waiting for threads. The process guards (process_guard.py) end the commands that a thread started.
    os._exit(0)


if __name__ == "__main__":
    main()
