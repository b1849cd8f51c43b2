"""The keys that machines publish as guest attributes, read within Google's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpu_ci.gcp.gate.compute_api import ApiError

from ..model import Machine
from ..registration import GUEST_ATTRIBUTE, key_of

# "At most 10 queries a minute" for each VM, those of its own agent included; above that Google may drop what the
# machine writes (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes). Here 4 in any minute; the agent
# makes two for each value that it writes. Passes are 10 s apart, so that four of five read the key.
_A_MINUTE = 4
_PAUSE_SEC = 10.0
# One call after the other, of some 0.1 s each.
MOST_AT_ONCE = 20


@dataclass
class MachineKeys:
    """Those of the machines that wait for their runner."""

    monotonic: Callable[[], float]
    _keys: dict[str, str] = field(default_factory=dict)
    """By the machine's id. Only the last one read counts: a machine that boots again has another one."""
    _read_at: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The last four times."""

    def with_keys(
        self, machines: Sequence[Machine], attribute: Callable[[str, str, str, str], str]
    ) -> tuple[Machine, ...]:
        """The same machines with the keys of those that wait. Those whose key was read longest ago are asked first."""
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
                # The next reading may go better. A machine whose key cannot be read ends by itself.
                continue
            self._keys[key] = key_of(text, machine.name, machine.id)
        return tuple(replace(each, key=self._keys.get(each.id, "")) for each in machines)

    def _may_be_read(self, key: str, now: float) -> bool:
        times = self._read_at.get(key, ())
        return not times or (now - times[-1] >= _PAUSE_SEC and (len(times) < _A_MINUTE or now - times[0] >= 60))
