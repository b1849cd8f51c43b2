"""Runs the program openssl for the cryptography that Python's standard library lacks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from .outcomes import AgentExit

# A pipe holds 65,536 bytes (pipe(7)), so the whole key fits before it is read. An RSA key of 8192 bits has about 6,500
# characters as PEM.
KEY_LIMIT_BYTES = 16_384
KEY = "{key}"
"""The placeholder in the arguments for the path of the key."""
_SEC = 30


def run(arguments: Sequence[str], content: bytes, key: bytes, use: str) -> bytes:
    """Return the output of openssl for `content`, or an empty result if it fails.

    The key goes through a pipe that openssl inherits. A file would remain on the disk, and every user of the machine
    can read the arguments of a program. `use` is a text for errors that says what openssl does.

    Raises:
        AgentExit: "no-tool" without openssl, or "timed-out".
    """
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(key)
        # Standard error is dropped, because it might contain the key.
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
