"""Start the language host. The engine runs it as `pulumi-language-python`."""

from __future__ import annotations

import os
import sys

from pulumi_sandbox.protocol import protocol_only


def main() -> None:
    protocol_only("pulumi-language-python")
    from pulumi_sandbox.language_host.server import PLUGIN_GRACE, LanguageHost, serve
    from pulumi_sandbox.processes import EngineWatch

    # The engine passes its own options (--tracing, -v) first and its address last.
    positional = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    address = positional[-1] if positional else ""
    watch = EngineWatch(address)
    host = LanguageHost(address)
    server, port = serve(host)
    print(port, flush=True)  # noqa: T201 - the engine reads the port from standard output
    watch.watch()
    host.close(patience=PLUGIN_GRACE + 1)
    server.stop(None)
    os._exit(0)  # without waiting for threads


if __name__ == "__main__":
    main()
