"""Start the language host. The engine runs it as `pulumi-language-python`."""

from __future__ import annotations

import os
import signal
import sys
import threading

from pulumi_sandbox.protocol import protocol_only


def main() -> None:
    protocol_only("pulumi-language-python")
    from pulumi_sandbox import processes
    from pulumi_sandbox.language_host.server import LanguageHost, serve

    # The engine passes its own options (--tracing, -v) first and its address last.
    positional = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    host = LanguageHost(positional[-1] if positional else "")
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
