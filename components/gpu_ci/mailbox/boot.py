"""What a machine without a metadata server needs for its boot: a boot document in the mailbox, and a boot script.

The script has a signed URL of the document. The document has the agent's configuration, and signed URLs of everything
else that the machine reads and writes.

Who can read the bucket, or the user data of a machine before its key is published, can publish another key and get
the registration of its runner. Later they can only forge the end of the machine. So only the runner manager and the
deployer may read the bucket. Objects below `<manager>/mail/` that nobody needs any more are left if a manager dies;
the bucket should delete them after 8 days, because no signed URL is older than 7.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..naming import payload_key
from .objects import MOST_SIGNED_SEC, Objects, Signed

Host = Literal["ec2", "rented"]
"""How the agent reads notices of its vendor (agent/gpu_agent/mailbox/host.py)."""
WRITTEN = ("key", "verdict", "end", "notice")
"""The objects that a machine writes, each once."""
REGISTRATION = "registration"
"""The object with the encrypted registration of the machine's runner, which the manager writes once."""
BOOT = "boot.json"
IMDS = "http://169.254.169.254"
"""The instance metadata service of EC2, which has the user data of an instance."""
GATE = "_gate"
"""The first part of the keys of smoke gates. No runner manager has this name (naming.PATTERN)."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{12}")


def mail_key(manager: str, machine_id: str = "", name: str = "") -> str:
    """Return the key of one object of a machine's mail, the prefix of its mail, or the prefix of all mail."""
    return f"{manager}/mail/{machine_id and machine_id + '/'}{name}"


def state_key(manager: str, name: str) -> str:
    """Return the key of an object that only the manager and `pulumi up` use, such as its configuration."""
    return f"{manager}/state/{name}"


@dataclass(frozen=True)
class Definition:
    """What all machines of a template have in common. It has no secret."""

    config: Mapping[str, Any]
    """The agent's configuration (agent/gpu_agent/config.py)."""
    payloads: Mapping[str, str]
    """The SHA-256 of each download by its name: `agent` and `smoke`, which are zip files that Python runs."""

    @classmethod
    def parse(cls, text: str) -> Definition:
        """Return the definition in this text. Raises ValueError, which says what is wrong."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("the template's definition is not JSON") from None
        if not isinstance(value, dict) or not isinstance(value.get("config"), dict):
            raise ValueError("the template's definition has no config")
        payloads = value.get("payloads")
        digests = payloads if isinstance(payloads, dict) else {}
        missing = [name for name in ("agent", "smoke") if not _SHA256.fullmatch(str(digests.get(name, "")))]
        if missing:
            raise ValueError(f"the template's definition has no SHA-256 of {' and '.join(missing)} in payloads")
        return cls(value["config"], {name: str(digests[name]) for name in ("agent", "smoke")})

    def text(self) -> str:
        """Return the definition as JSON. Equal definitions have equal texts."""
        return json.dumps({"config": dict(self.config), "payloads": dict(self.payloads)}, sort_keys=True)


def post_boot(
    objects: Objects,
    manager: str,
    name: str,
    machine_id: str,
    host: Host,
    definition: Definition,
    *,
    boot_sec: int = MOST_SIGNED_SEC,
    limit_sec: int = MOST_SIGNED_SEC,
    role: str = "",
) -> str:
    """Write the boot document of a new machine, and return its boot script, at most 8 KiB.

    The script is the user data of an EC2 instance, or the standard input of a shell on a rented host.

    Args:
        objects: The bucket of the mailbox.
        manager: The name of the runner manager or of the gate, which is the first part of all keys.
        name: The machine's name.
        machine_id: 12 random hexadecimal characters (secrets.token_hex(6)).
        host: How the agent reads notices.
        definition: The template's definition.
        boot_sec: The seconds in which the machine must fetch its document, also after a restart.
        limit_sec: The seconds after the boot in which systemd ends the agent, also with a job, and the machine.
        role: `check` for the machine of a gate (agent.ROLE).

    Raises:
        ObjectsError: The document is not written.
    """
    if not _ID.fullmatch(machine_id):
        raise ValueError(f"the id of a machine has 12 hexadecimal characters, and not {machine_id!r}")
    content = json.dumps(_document(objects, manager, name, machine_id, host, definition, role)).encode()
    key = mail_key(manager, machine_id, BOOT)
    objects.write(key, content)
    boot, sha256 = objects.signed("GET", key, boot_sec), hashlib.sha256(content).hexdigest()
    return script(boot, sha256, limit_sec, IMDS if host == "ec2" else "")


def _document(
    objects: Objects, manager: str, name: str, machine_id: str, host: Host, definition: Definition, role: str
) -> dict[str, Any]:
    def signed(key: str) -> Signed:
        return objects.signed("GET", key, MOST_SIGNED_SEC)

    payloads = {
        each: {"url": signed(payload_key(manager, sha256)).url, "sha256": sha256}
        for each, sha256 in definition.payloads.items()
    }
    mailbox = {
        each: objects.signed("PUT", mail_key(manager, machine_id, each), MOST_SIGNED_SEC, only_new=True)
        for each in WRITTEN
    }
    mailbox[REGISTRATION] = signed(mail_key(manager, machine_id, REGISTRATION))
    return {
        "machine": f"{name}-{machine_id}",
        "host": host,
        "role": role,
        "payloads": payloads,
        "mailbox": {each: asdict(request) for each, request in mailbox.items()},
        # The last one, because the boot script finds the first entry of a name.
        "config": dict(definition.config),
    }


def script(boot: Signed, sha256: str, limit_sec: int = MOST_SIGNED_SEC, imds: str = "") -> str:
    """Return the boot script for a boot document with this digest. `imds` has the script of a later boot."""
    values = {"@BOOT_URL@": boot.url, "@BOOT_SHA256@": sha256, "@LIMIT_SEC@": str(limit_sec), "@IMDS@": imds}
    text = _script()
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


@cache
def _script() -> str:
    """Return boot.sh without its comments: user data has at most 16 KiB."""
    first, *rest = Path(__file__).with_name("boot.sh").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join([first, *(line for line in rest if not line.startswith("#"))])
