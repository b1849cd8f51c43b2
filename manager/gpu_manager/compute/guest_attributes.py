"""Reads what machines publish as guest attributes: their end, and the public key for their registration."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpu_ci.gcp.gate.compute_api import ApiError

from ..model import End, Machine, printable
from ..registration import GUEST_ATTRIBUTE, key_of

END = "gpu-agent/end"
"""The guest attribute with a machine's end, which its agent wrote (agent/gpu_agent/report.py)."""
_CHARACTERS = 1024
# Google allows "at most 10 queries a minute" for each VM, including those of the VM's own agent. Above that Google may
# drop values that the machine writes (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes). The manager
# makes at most 4 in any minute; the agent makes two for each value that it writes. Passes are 10 s apart, so four of
# five passes read the key.
_A_MINUTE = 4
_PAUSE_SEC = 10.0
# The calls are sequential and take about 0.1 s each.
MOST_AT_ONCE = 20


def end_of(text: str) -> End | None:
    """Return the end, or None if the machine wrote none or something that no agent writes."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    reason = value.get("reason")
    if not isinstance(reason, str) or not reason:
        return None
    return End(_line(reason), _line(str(value.get("detail", ""))), value.get("stops_pool") is True)


def _line(text: str) -> str:
    """Return the text as one line without terminal control characters, because a job may have written it."""
    return printable(text[:_CHARACTERS])


@dataclass
class MachineKeys:
    """The keys of the machines that wait for their runner."""

    monotonic: Callable[[], float]
    _keys: dict[str, str] = field(default_factory=dict)
    """The last read key by machine id. A machine that boots again publishes another key."""
    _read_at: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The times of the last four reads, by machine id."""

    def with_keys(
        self, machines: Sequence[Machine], attribute: Callable[[str, str, str, str], str]
    ) -> tuple[Machine, ...]:
        """Return the machines, with the keys of those that wait for a runner.

        Not every key is read in each pass. The key whose last reading is the oldest is read first.
        """
        waiting = {each.id: each for each in machines if each.unregistered and each.status == "RUNNING"}
        self._keys = {key: each for key, each in self._keys.items() if key in waiting}
        self._read_at = {key: each for key, each in self._read_at.items() if key in waiting}
        now = self.monotonic()
        late = [key for key in waiting if self._may_be_read(key, now)]
        late.sort(key=lambda key: self._read_at.get(key, (0.0,))[-1])
        for key in late[:MOST_AT_ONCE]:
            machine = waiting[key]
            self._read_at[key] = (*self._read_at.get(key, ()), now)[-_A_MINUTE:]
            try:
                text = attribute(machine.project, machine.zone, machine.name, GUEST_ATTRIBUTE)
            except ApiError:
                # The next reading may succeed. A machine that gets no registration ends by itself.
                continue
            self._keys[key] = key_of(text, machine.name, machine.id)
        return tuple(replace(each, key=self._keys.get(each.id, "")) for each in machines)

    def _may_be_read(self, key: str, now: float) -> bool:
        times = self._read_at.get(key, ())
        return not times or (now - times[-1] >= _PAUSE_SEC and (len(times) < _A_MINUTE or now - times[0] >= 60))
