"""Start a sandbox provider: `python -m pulumi_sandbox.providers <cloud> [engine-address]` prints its port."""

from __future__ import annotations

import os
import sys
import warnings

from pulumi_sandbox.plugins import PROVIDERS
from pulumi_sandbox.protocol import protocol_only


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in PROVIDERS:
        sys.stderr.write(f"usage: python -m pulumi_sandbox.providers {{{'|'.join(PROVIDERS)}}} [engine-address]\n")
        return 64
    # The engine shows a provider's output to the user. These warnings are not about the user's program.
    warnings.simplefilter("ignore")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    protocol_only(f"pulumi-resource-{arguments[0]}")
    from pulumi_sandbox.providers.resource import Refused
    from pulumi_sandbox.providers.server import cloud_of, serve
    from pulumi_sandbox.workspace import NoProjectError
    from pulumi_sandbox.world.store import WorldError

    try:
        serve(cloud_of(arguments[0]), next((one for one in arguments[1:] if ":" in one), ""))
    except (NoProjectError, Refused, WorldError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # threads of a guest or of gRPC must not delay the exit
