"""The options --webhook and --webhook-secret of `gpu-ci manager run`."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from gpu_ci.cli.output import InputError

_ADDRESS = re.compile(r"\[?(?P<host>[0-9A-Za-z.:-]*?)\]?:(?P<port>[0-9]{1,5})")
# docs.github.com, "Validating webhook deliveries": a random string with high entropy.
_LEAST_SECRET = 16


class SecretError(OSError):
    """The file does not contain a usable secret."""


def secret_in(file: Path) -> bytes:
    """Return the webhook's secret without its line end. Raises OSError if it is missing or too short."""
    found = file.read_bytes().strip()
    if len(found) < _LEAST_SECRET:
        raise SecretError(0, f"has fewer than {_LEAST_SECRET} characters")
    return found


def listening(
    address: str | None, secret_file: Path | None, labels: Collection[str], wake: Callable[[], None]
) -> AbstractContextManager[object]:
    """Receive deliveries at this address in the block, or do nothing without an address. Raises InputError for a
    mistake.
    """
    if address is None and secret_file is None:
        return nullcontext()
    if address is None or secret_file is None:
        raise InputError("--webhook and --webhook-secret must be given together",
                         hint="without the secret a forged delivery cannot be detected")  # fmt: skip
    from ..webhook.hints import Hints
    from ..webhook.server import serving

    try:
        secret_in(secret_file)
    except OSError as error:
        hint = "create a secret with openssl rand -hex 32, and enter it in the webhook's settings too"
        raise InputError(f"--webhook-secret: {secret_file}: {error.strerror}", hint=hint) from None
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise InputError("--webhook: is not an address", got=address, expected="HOST:PORT, such as 127.0.0.1:8080")
    hints = Hints(lambda: secret_in(secret_file), labels, wake)

    @contextmanager
    def receiving() -> Iterator[None]:
        with _listener(found["host"], int(found["port"])) as listener, serving(hints, listener):
            yield

    return receiving()


def _listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"--webhook: {host}:{port}: {error.strerror}", hint="use another HOST:PORT of this computer"
        ) from None
