"""The program openssl, for the cryptography that Python's standard library lacks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from .outcomes import AgentExit

# A pipe holds 65,536 bytes (pipe(7)), so that all of the key lies in it before anybody reads. An RSA key of 8192 bits
# has some 6,500 characters as PEM.
KEY_LIMIT_BYTES = 16_384
KEY = "{key}"
"""In the arguments: where openssl finds the key."""
_SEC = 30


def run(arguments: Sequence[str], content: bytes, key: bytes, use: str) -> bytes:
    """Return what openssl makes of `content`; nothing where it fails.

    The key goes through a pipe that openssl inherits: not by a file, which a disk would remember, and not by an
    argument, which every user of the machine may read. `use` says what openssl is needed for.

    Raises AgentExit: "no-tool" without openssl, "timed-out".
    """
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(key)
        # What it writes to standard error is dropped: nobody can be sure that it never quotes the key.
        done = subprocess.run(
            ["openssl", *(f"/dev/fd/{reader}" if each == KEY else each for each in arguments)],
            input=content,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[reader],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            timeout=_SEC,
            check=False,
        )
    except FileNotFoundError:
        raise AgentExit("no-tool", f"openssl is not on PATH; it {use}") from None
    except subprocess.TimeoutExpired:
        raise AgentExit("timed-out", f"openssl did not end within {_SEC} s; it {use}") from None
    finally:
        os.close(reader)
    return b"" if done.returncode else done.stdout
