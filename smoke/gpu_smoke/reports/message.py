"""The message for a termination log, which Pulumi and kubectl show."""

from __future__ import annotations

from .record import Record, bad, cut, safe_line

# Kubernetes keeps 4096 bytes of a termination message (kubernetes.io, "Determine the Reason for Pod Failure").
MESSAGE_BYTES = 4000


def message(record: Record) -> str:
    """Return at most 4000 bytes: the summary, the hint of the worst failure, and the failures.

    A pass has only the summary.
    """
    wrong = bad(record)
    lines = [safe_line(record["summary"])]
    lines += [f"hint: {safe_line(wrong[0]['hint'])}"] if wrong and wrong[0].get("hint") else []
    lines += [f"{safe_line(check['id'], 100)}: {safe_line(check['message'], 300)}" for check in wrong]
    return cut("\n".join(lines) + "\n", MESSAGE_BYTES)
