"""The verdict as a guest attribute of a Compute Engine VM, in the form that the boot script of gpu-ci writes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from .record import Record, safe_line

NAME = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9_-]{1,100}")
SUMMARY_BYTES = 900  # the boot script also cuts a summary at this size
TIMEOUT_SEC = 5.0  # the metadata server may hang


def guest_attribute(record: Record) -> str:
    """Return a short JSON text with the verdict, the exit code, and the summary, which may be cut."""
    summary = safe_line(record["summary"])
    while len(json.dumps(summary)) > SUMMARY_BYTES:
        summary = summary[: len(summary) * 9 // 10]
    found = {"verdict": record["verdict"], "exit_code": record.get("exit_code"), "summary": summary}
    return json.dumps(found, separators=(",", ":"))


def put(name: str, value: str, environment: Mapping[str, str] = os.environ) -> None:
    """Write the guest attribute NAMESPACE/KEY. Raises OSError on failure."""
    import urllib.request  # loads a large part of the library, which no other run needs

    host = environment.get("GCE_METADATA_HOST", "metadata.google.internal")
    request = urllib.request.Request(
        f"http://{host}/computeMetadata/v1/instance/guest-attributes/{name}",
        data=value.encode(),
        method="PUT",
        headers={"Metadata-Flavor": "Google", "Content-Type": "application/json"},
    )
    # Never through a proxy: its metadata server would be another machine's.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_SEC):
        pass
