"""Verifies GitHub's deliveries (requests to the webhook), and selects those that start the next pass early.

No action of the manager depends on the content of a delivery.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

# docs.github.com, "Webhook events and payloads", delivery headers; the signature is "sha256=" and 64 hex digits.
_SIGNATURE, _EVENT, _DELIVERY = "x-hub-signature-256", "x-github-event", "x-github-delivery"
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
# A redelivery has the id of its first delivery (docs.github.com, "Best practices for using webhooks").
_REMEMBERED = 1000
# The events and actions that start a pass. A job that has started has its machine, so it needs no pass. A run that has
# ended may be run again.
_WAKING = {"workflow_job": ("queued", "waiting", "completed"), "workflow_run": ("completed",)}


class Reply(NamedTuple):
    """The answer to a delivery."""

    status: int
    text: str
    wakes: bool = False


class Hints:
    """Answers deliveries. Several threads may use the object.

    Args:
        secret: Reads the webhook's secret for each delivery, so that a new one needs no restart.
        labels: Labels of the pools' runners in lower case. A job with none of them wakes nothing.
        wake: Called for each delivery that wakes the manager.
    """

    def __init__(self, secret: Callable[[], bytes], labels: Collection[str], wake: Callable[[], None]) -> None:
        self._secret, self._labels, self._wake = secret, frozenset(labels), wake
        self._delivery_ids: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer a delivery. `headers` has lower-case names. The signature is verified before the body is parsed."""
        if not self._is_signed(headers.get(_SIGNATURE, ""), body):
            return Reply(401, f"{_SIGNATURE}: is not the signature of this body with the webhook's secret")
        event, delivery = headers.get(_EVENT, ""), headers.get(_DELIVERY, "")
        if not event or not _ID.fullmatch(delivery):
            return Reply(400, f"{_EVENT} or {_DELIVERY} is missing")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return Reply(415, "content-type: expected application/json, which the webhook's settings offer")
        try:
            payload = json.loads(body)
        except (ValueError, RecursionError):
            return Reply(400, "the body is not JSON")
        if self._is_repeated(delivery):
            return Reply(202, "this delivery was already received")
        if not self._wakes(event, payload):
            return Reply(202, "this event starts no pass")
        self._wake()
        return Reply(202, "the manager looks for jobs", wakes=True)

    def _is_signed(self, signature: str, body: bytes) -> bool:
        expected = "sha256=" + hmac.new(self._secret(), body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected.encode(), signature.encode())

    def _is_repeated(self, delivery: str) -> bool:
        with self._lock:
            if delivery in self._delivery_ids:
                return True
            self._delivery_ids[delivery] = None
            if len(self._delivery_ids) > _REMEMBERED:
                self._delivery_ids.popitem(last=False)
            return False

    def _wakes(self, event: str, payload: Any) -> bool:
        if not isinstance(payload, dict) or payload.get("action") not in _WAKING.get(event, ()):
            return False
        job = payload.get("workflow_job")
        if event != "workflow_job" or not isinstance(job, dict) or not isinstance(job.get("labels"), list):
            return event == "workflow_run"
        return not self._labels.isdisjoint(str(label).lower() for label in job["labels"])
