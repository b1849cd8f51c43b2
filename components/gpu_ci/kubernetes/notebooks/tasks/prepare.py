"""Clones the pushed commit, finds its notebooks, and stores both for the other tasks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import common

MESSAGE_BYTES = 4096
"""The size of all results of a task. Source: Tekton's documentation of results ("Larger results")."""
OVERHEAD_BYTES = 400
"""The names and types of the results, and the time of the start, in the same message."""


def main() -> None:
    revision = os.environ["REVISION"]
    source = Path("source").resolve()
    commit = common.clone(common.REPOSITORY, revision, source)
    if commit != revision:
        raise common.Fault(f"the revision is no commit\n  got: {revision}\n  expected: a full id, such as {commit}")
    notebooks = find(source, os.environ["NOTEBOOKS"].split("\n"))
    common.pack(source, "source.tar.gz")
    common.put_json("prepared.json", {"commit": commit, "notebooks": notebooks, "time": common.now()})
    common.result("commit", commit)
    common.result("notebooks", json.dumps(notebooks, ensure_ascii=False))
    try:
        common.set_status(commit, "pending", f"{len(notebooks)} notebooks run", common.report_url())
    except common.Fault as fault:  # The run is worth more than its status.
        common.log(f"gpu-ci: {fault}")


def find(source: Path, patterns: list[str]) -> list[str]:
    """Return the paths of the committed notebooks that match a pattern, sorted."""
    specs = [f":(glob){pattern}" for pattern in patterns if pattern]
    command = ["git", "-C", str(source), "ls-files", "-z", "--", *specs]
    # Names are bytes in git. Those that are no UTF-8 become characters that are not printable.
    listed = subprocess.run(command, capture_output=True, encoding="utf-8", errors="surrogateescape", check=False)
    found = sorted(path for path in listed.stdout.split("\0") if path.endswith(".ipynb"))
    most = int(os.environ["MOST_NOTEBOOKS"])
    if not found:
        got = listed.stderr.strip() or "no committed file that ends with .ipynb"
        raise common.Fault(
            f"no notebook matches\n  path: notebooks\n  got: {got}\n  expected: a match of {', '.join(patterns)}"
        )
    # A path becomes a key of the storage, and a variable of a container, in which Kubernetes replaces $(NAME) and $$.
    if odd := [path for path in found if not path.isprintable() or "$(" in path or "$$" in path]:
        raise common.Fault(
            f"a path of a notebook has characters that are not accepted\n  path: notebooks\n  got: {odd[0]!a}\n"
            "  expected: printable characters, without $( and $$\n  hint: rename it"
        )
    # A result is text in the JSON of the message, so its quotes need escapes.
    size = len(json.dumps(json.dumps(found, ensure_ascii=False), ensure_ascii=False).encode()) + OVERHEAD_BYTES
    if len(found) > most or size > MESSAGE_BYTES:
        raise common.Fault(
            f"too many notebooks for one run\n  path: notebooks\n  got: {len(found)} notebooks, of {size} bytes\n"
            f"  expected: at most {most} notebooks and {MESSAGE_BYTES} bytes\n  hint: split the pipeline, or "
            "shorten the paths"
        )
    return found


if __name__ == "__main__":
    common.run(main)
