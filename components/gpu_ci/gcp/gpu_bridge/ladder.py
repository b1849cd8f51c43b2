"""The ladder of a bridge: the order in which a step requests its machine, by what earlier steps learned about capacity.

The order and the memory are those of the runner manager (gpu_common/capacity.py). Steps of different builds share the
memory as an object of the bucket. A place without capacity is tried last, and not left out, because a step requests a
machine only once at each place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from gpu_common import capacity
from gpu_common.capacity import Cooldown, HasRung, InsertError, Reason, Rung, StoppedPool

from ..gate.compute_api import ApiError
from .settings import Settings
from .storage import Storage

MEMORY = "slots/capacity.json"
_LARGEST_BYTES = 2**20
_TRIES = 3


@dataclass
class Memory:
    """The facts that steps remember. A step sends no two requests at once, and its templates passed their check."""

    cooldowns: dict[str, Cooldown] = field(default_factory=dict)
    closed_quotas: dict[str, tuple[float, str]] = field(default_factory=dict)
    preferred: dict[str, float] = field(default_factory=dict)
    preemptions: dict[str, list[float]] = field(default_factory=dict)
    refusals: dict[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def pending(self) -> Mapping[str, HasRung]:
        return {}

    @property
    def stopped(self) -> Mapping[str, StoppedPool]:
        return {}


@dataclass(frozen=True)
class _Rungs:
    """The rungs that a step has not tried, as a pool of gpu_common.capacity."""

    name: str
    rungs: tuple[Rung, ...]
    price_ceiling_usd: None = None

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.template_of, self.rungs)))

    def template_of(self, rung: Rung) -> str:
        return rung.template


class BridgeLadder:
    """The ladder of one attempt of a step. An error of the memory never ends the step: it is only less informed."""

    def __init__(self, settings: Settings, storage: Storage, unix: Callable[[], float], without_spot: bool) -> None:
        """Create the ladder. With `without_spot`, a machine of another market is requested."""
        self._storage, self._unix = storage, unix
        found = rungs(settings)
        if without_spot:
            found = tuple(each for each in found if not each.preemptible and each.market) or tuple(
                replace(each, market="standard") for each in found
            )
        self._left = _Rungs(settings.name, found)
        self._last: Rung | None = None

    def next(self) -> Rung | None:
        """Return the next rung to try, or None after the last."""
        if not self._left.rungs:
            return None
        memory, _ = self._read()
        now = self._unix()
        capacity.forget_old(memory, now)
        chosen = capacity.choose(self._left, memory, now, avoid_preemptible=False)
        rung = self._left.rungs[0] if isinstance(chosen, Reason) else chosen
        self._left = replace(self._left, rungs=tuple(each for each in self._left.rungs if each != rung))
        self._last = rung
        return rung

    def failed(self, rung: Rung, error: InsertError) -> None:
        """Remember that Google refused a machine on this rung."""
        self._change(lambda memory, now: capacity.remember_failure(self._left.name, rung, error, memory, now))

    def created(self, rung: Rung) -> None:
        """Forget the stockouts of this rung's place, if there are any."""
        memory, _ = self._read()
        if capacity.is_test_insert(rung, memory):
            self._change(lambda memory, _: capacity.forget_stockouts(rung, memory))

    def preempted(self) -> None:
        """Remember a preemption of the machine on the last rung."""
        if rung := self._last:
            where = capacity.spot_place(rung.region, rung.machine_type)
            self._change(lambda memory, now: capacity.count_preemption(where, memory, now))

    def _change(self, change: Callable[[Memory, float], None]) -> None:
        try:
            for _ in range(_TRIES):
                memory, generation = self._read()
                now = self._unix()
                capacity.forget_old(memory, now)
                change(memory, now)
                content = json.dumps(asdict(memory)).encode()
                if generation:
                    written = self._storage.replace(MEMORY, content, generation)
                else:
                    written = self._storage.create(MEMORY, content)
                if written:
                    return
        except ApiError:
            return

    def _read(self) -> tuple[Memory, int]:
        """Return the memory and its generation, or an empty memory and 0."""
        try:
            entry = self._storage.find(MEMORY, once=True)
            if entry is None or entry.size > _LARGEST_BYTES:
                return Memory(), entry.generation if entry else 0
            sink = io.BytesIO()
            self._storage.read(MEMORY, entry.generation, sink, once=True)
            return parse(sink.getvalue()), entry.generation
        except ApiError:
            return Memory(), 0


def rungs(settings: Settings) -> tuple[Rung, ...]:
    """Return the rungs of the settings: `rungs`, or else the zones with the template's own market."""
    if not settings.rungs:
        return tuple(Rung(zone, "", "", template=settings.template) for zone in settings.zones)
    return tuple(
        Rung(
            each["zone"],
            each["machine_type"],
            each["market"],
            each.get("gpu", ""),
            template=each.get("template") or settings.template,
        )
        for each in settings.rungs
    )


def parse(content: bytes) -> Memory:
    """Return the memory in an object. An object of another form, such as of another version, is an empty memory."""
    try:
        value = json.loads(content)
        memory = Memory(**{each.name: value[each.name] for each in fields(Memory)})
        memory.cooldowns = {key: Cooldown(**each) for key, each in value["cooldowns"].items()}
        for cooldown in memory.cooldowns.values():
            cooldown.zones_available = tuple(cooldown.zones_available)
        capacity.forget_old(memory, 0.0)  # compares each time, so that a wrong type is found here
        return memory
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Memory()


def no_machine(tried: Sequence[Rung], suggested: Sequence[str]) -> str:
    """Return the text about an attempt in which no place had a machine."""
    places = [" ".join(filter(None, (each.zone, each.machine_type, each.market))) for each in tried]
    named = f"; Google suggests {', '.join(suggested)}" if suggested else ""
    return f"no machine in {', '.join(places)}{named}"
