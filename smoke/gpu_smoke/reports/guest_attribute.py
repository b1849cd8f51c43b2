"""The verdict as a guest attribute of a machine on Compute Engine, in the form in which our boot script writes it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from .record import Record, shown

NAME = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9_-]{1,100}")
SUMMARY_BYTES = 900  # so much and no more does the boot script keep of a summary
TIMEOUT_SEC = 5.0  # what hangs is killed only after this


def guest_attribute(record: Record) -> str:
    """A small JSON: verdict, exit code, and the summary as far as it goes."""
    summary = shown(record["summary"])
    while len(json.dumps(summary)) > SUMMARY_BYTES:
        summary = summary[: len(summary) * 9 // 10]
    found = {"verdict": record["verdict"], "exit_code": record.get("exit_code"), "summary": summary}
    return json.dumps(found, separators=(",", ":"))


def put(name: str, value: str, environment: Mapping[str, str] = os.environ) -> None:
    """Write NAMESPACE/KEY, or raise OSError."""
    import urllib.request  # it brings a good part of the library along, which no other run needs

    host = environment.get("GCE_METADATA_HOST", "metadata.google.internal")
    request = urllib.request.Request(
        f"http://{host}/computeMetadata/v1/instance/guest-attributes/{name}",
        data=value.encode(),
        method="PUT",
        headers={"Metadata-Flavor": "Google", "Content-Type": "application/json"},
    )
    # Never through a proxy: it has a metadata server of its own, or none.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_SEC):
        pass
