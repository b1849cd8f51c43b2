"""Several managers of one stack: each holds the lease of a share of the pools, and no pool is in two shares.

Each share has an object of its own in the bucket, with its memory, view and lease (bucket.py). One more object, the
layout, says which pools each share has. A manager whose configuration has another layout waits until every lease of the
present one has ended, then writes its own, and takes over what all the shares before remembered:

1. It writes the layout as not ready, which counts as one that nobody may act by.
2. It writes every object of the layout before over the generation it read, once its lease has ended. A process that
   stood still meanwhile finds another generation, and writes nothing any more.
3. It writes the layout as ready, with the memories of these objects.

A process that takes a lease reads the layout once more before it acts: either it sees the new layout and gives the
lease back, or the lease was there before step 2, which waits for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, NamedTuple

from ..assignment import Assignment
from ..clock import uptime
from ..memory import Memory, from_json, merged, of_pools, to_json
from ..ports import Refused, Unavailable
from .bucket import LEASE_SEC, POLL_SEC, WRITE_SEC, BucketStore, parsed_share, share_content
from .sqlite import SqliteStore
from .storage_api import Changed, Found, StorageObject

SPARE_SEC = 120.0
"""A share that nobody has held for so long is taken by a manager that has one already."""
WAITING_SEC = 30.0
"""How long a manager without a share counts as waiting after it said so."""
_BREAK_SEC = 60.0
"""How long a manager that gave a share to a waiting one takes no other."""


_CHANGING = "another process changes the shares"


@dataclass(frozen=True)
class Share:
    """A share that this process holds."""

    index: int
    pools: tuple[str, ...]
    store: BucketStore | SqliteStore


class Before(NamedTuple):
    """The last layout by which anybody acted."""

    epoch: int
    shares: Assignment
    memory: Any


@dataclass(frozen=True)
class Layout:
    """Which pools each share has."""

    epoch: int
    """Grows by one with each layout. A share's memory of another epoch counts no more."""
    shares: Assignment
    objects: int
    """How many shares any layout had at most."""
    before: Before
    ready: bool = False
    memory: Any = None
    """What all shares begin with, in the form of JSON: what those before remembered."""


class WholeFile:
    """All pools as one share, for the manager of one computer."""

    def __init__(self, store: SqliteStore, pools: tuple[str, ...]) -> None:
        self._store, self._pools = store, pools

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> Share | None:
        """Take the file for this process. InUse where another one has it."""
        return Share(0, self._pools, self._store) if self._store.hold(stopped, waiting) else None

    def spare(self, held: Collection[int]) -> Share | None:  # noqa: ARG002 - there is one
        return None

    def another_waits(self) -> bool:
        return False


class Shares:
    """The shares of one stack in one bucket. `holder` names this process, and no other one ever.

    Args:
        objects: Opens the object of a name.
        name: That of the first share's object, such as state.json. The others' follow from it.
        wanted: The shares by the configuration of this process.
    """

    def __init__(
        self,
        objects: Callable[[str], StorageObject],
        name: str,
        wanted: Assignment,
        holder: str,
        clock: Callable[[], float] = uptime,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._objects = objects
        self._name = name
        self._wanted = wanted
        self._holder = holder
        self._clock = clock
        self._sleep = sleep
        self._layout = objects(layout_name(name))
        self._waiting = objects(_with_suffix(name, "waiting"))
        self._said_at = self._gave_at = float("-inf")
        self._missing_since: dict[int, float] = {}
        self._opened: dict[int, StorageObject] = {}
        self._made = False
        """Whether the layout's object exists."""

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> Share | None:
        """Take a share, and renew its lease from now on; None where `stopped` came first. Refused.

        It waits while others hold all of them, and reports for whom.
        """
        while not stopped.is_set():
            try:
                taken = self.take()
            except Unavailable as error:
                waiting(str(error))
            else:
                if isinstance(taken, Share):
                    taken.store.keep()
                    return taken
                waiting(taken)
            stopped.wait(POLL_SEC)
        return None

    def take(self) -> Share | str:
        """A share whose lease is free; where none is, what is waited for. Unavailable or Refused."""
        layout = self._ready()
        if isinstance(layout, str):
            return layout
        holders = []
        for index in range(len(self._wanted)):
            taken = self._take(layout, index)
            if isinstance(taken, Share) or taken == _CHANGING:
                return taken
            holders.append(taken)
        self._say_waiting()
        *_, last = names = list(dict.fromkeys(holders))
        return f"{last} has the lease" if len(names) == 1 else f"{', '.join(names)} have the leases"

    def spare(self, held: Collection[int]) -> Share | None:
        """A share more, which nobody has held for a while. Unavailable or Refused."""
        if self._clock() - self._gave_at < _BREAK_SEC:
            return None
        _, layout = self._read()
        if layout.shares != self._wanted or not layout.ready:
            return None
        for index in sorted(set(range(len(self._wanted))) - set(held)):
            if self._abandoned(index):
                taken = self._take(layout, index)
                if isinstance(taken, Share):
                    self._missing_since.pop(index, None)
                    return taken
        return None

    def another_waits(self) -> bool:
        """Whether a manager without a share waits for one. A share is given to it once."""
        with suppress(Unavailable, Refused):
            found = self._waiting.read()
            if found and found.age_sec < WAITING_SEC and self._clock() - self._gave_at > WAITING_SEC:
                self._gave_at = self._clock()
                return True
        return False

    # -- the layout ---------------------------------------------------------------------------------------------------

    def _ready(self) -> Layout | str:
        """The layout of this process's configuration, ready to act by; where it is not, what is waited for."""
        generation, layout = self._read()
        if layout.shares != self._wanted:
            if holder := self._someone(layout):
                return f"{holder}, which has another configuration, has a lease"
            before = Before(layout.epoch, layout.shares, layout.memory) if layout.ready else layout.before
            count = max(layout.objects, len(self._wanted))
            layout = Layout(layout.epoch + 1, self._wanted, count, before)
            changed = self._write(layout, generation)
            if changed is None:
                return _CHANGING
            generation = changed
        return layout if layout.ready else self._finish(layout, generation)

    def _finish(self, layout: Layout, generation: int) -> Layout | str:
        """End every lease of the layout before, and keep what its shares remembered."""
        before, untaken = layout.before, set[str]()
        memories: list[Memory | None] = []
        for index in range(layout.objects):
            kept = self._fence(index)
            if isinstance(kept, str):
                return f"{kept}, which has another configuration, has a lease"
            if kept["epoch"] == before.epoch:
                memories.append(_memory(kept["memory"]))
            elif index < len(before.shares):
                untaken |= set(before.shares[index])
        # A share that nobody held under the layout before remembers what that one began with.
        carried = _memory(before.memory)
        memories.append(of_pools(carried, untaken) if carried and untaken else None)
        memory = json.loads(to_json(merged([each for each in memories if each])))
        done = replace(layout, ready=True, memory=memory)
        # The layout and the shares were written just now, and are written again.
        self._sleep(WRITE_SEC)
        return done if self._write(done, generation) is not None else _CHANGING

    def _fence(self, index: int) -> dict[str, Any] | str:
        """What a share's object keeps, written over so that its last holder writes no more; or the holder."""
        share = self._share_object(index)
        empty = {"memory": None, "view": None, "epoch": 0}
        # Written before it is read: without storage.objects.list Google answers 403 for a missing object.
        with suppress(Changed):
            share.write(share_content(empty, ""), 0)
            return empty
        found = share.read()
        if found is None:
            return "another process"
        if holder := _holder(found):
            return holder
        _, kept = parsed_share(found)
        try:
            share.write(share_content(kept, ""), found.generation)
        except Changed:
            return "another process"
        return kept

    def _someone(self, layout: Layout) -> str:
        """Who holds a lease of the layout; empty where nobody does."""
        for index in range(max(layout.objects, len(layout.shares))):
            # A missing object is no lease. Google answers 403 for it to who may not list.
            with suppress(Refused):
                found = self._share_object(index).read()
                if found and (holder := _holder(found)):
                    return holder
        return ""

    def _read(self) -> tuple[int, Layout]:
        """The layout and its generation. The first process makes it, after a manager without layouts or none."""
        first = Layout(1, self._wanted, len(self._wanted), Before(0, (), None))
        if not self._made:
            self._made = True
            with suppress(Changed):
                return self._layout.write(_layout_content(first), 0), first
        found = self._layout.read()
        if found is None:
            raise Unavailable(f"{self._layout}: was deleted while it was read")
        return found.generation, _parsed_layout(found.content) or first

    def _write(self, layout: Layout, generation: int) -> int | None:
        """The new generation; None where the layout is another one by now."""
        try:
            return self._layout.write(_layout_content(layout), generation)
        except Changed:
            return None

    # -- one share ----------------------------------------------------------------------------------------------------

    def _take(self, layout: Layout, index: int) -> Share | str:
        # Google answers 403 for a missing object to who may not list. The store makes it, or says what is refused.
        with suppress(Refused):
            found = self._share_object(index).read()
            if found and (holder := _holder(found)) and holder != self._holder:
                return holder
        store = BucketStore(
            self._objects(share_name(self._name, index)),
            self._holder,
            self._clock,
            self._sleep,
            layout.epoch,
            layout.memory,
        )
        if (holder := store.take()) != self._holder:
            return holder
        try:
            _, now = self._read()
        except (Unavailable, Refused):
            store.close()
            raise
        if now.epoch != layout.epoch:
            store.close()
            return _CHANGING
        return Share(index, self._wanted[index], store)

    def _abandoned(self, index: int) -> bool:
        found = None
        with suppress(Refused):
            found = self._share_object(index).read()
        if found is None:
            return self._clock() - self._missing_since.setdefault(index, self._clock()) > SPARE_SEC
        (holder, _), _ = parsed_share(found)
        return found.age_sec > (SPARE_SEC if holder == "" else SPARE_SEC + LEASE_SEC)

    def _say_waiting(self) -> None:
        if self._clock() - self._said_at < WAITING_SEC / 3:
            return
        self._said_at = self._clock()
        content = json.dumps({"waiting": self._holder}).encode()
        with suppress(Unavailable, Refused, Changed):
            try:
                self._waiting.write(content, 0)
            except Changed:
                if found := self._waiting.read():
                    self._waiting.write(content, found.generation)

    def _share_object(self, index: int) -> StorageObject:
        """For this object's own use: a store has one of its own, as its lease is renewed in another thread."""
        if index not in self._opened:
            self._opened[index] = self._objects(share_name(self._name, index))
        return self._opened[index]


def share_name(name: str, index: int) -> str:
    """The name of a share's object: that of the first is the given one."""
    return name if index == 0 else _with_suffix(name, str(index + 1))


def layout_name(name: str) -> str:
    """The name of the layout's object."""
    return _with_suffix(name, "layout")


def shares_in(layout: StorageObject) -> int:
    """How many shares there are; 1 where no layout was written. Unavailable."""
    with suppress(Refused):  # 403 for a missing object
        if (found := layout.read()) and (parsed := _parsed_layout(found.content)):
            return len(parsed.shares)
    return 1


def _holder(found: Found) -> str:
    """Who has the lease of a share; empty where it is free."""
    (holder, lease_sec), _ = parsed_share(found)
    return holder if found.age_sec < lease_sec else ""


def _with_suffix(name: str, part: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.{part}{dot}{ending}" if dot and "/" not in ending else f"{name}.{part}"


def _memory(content: Any) -> Memory | None:
    try:
        return from_json(json.dumps(content).encode()) if content else None
    except ValueError:
        # One that has not begun: inserts of the lost memory are looked for before anything is started.
        return Memory()


def _layout_content(layout: Layout) -> bytes:
    return json.dumps({**vars(layout), "before": layout.before._asdict()}).encode()


def _assignment(value: Any) -> Assignment:
    return tuple(tuple(str(pool) for pool in share) for share in value)


def _parsed_layout(content: bytes) -> Layout | None:
    try:
        value = json.loads(content)
        before = Before(
            int(value["before"]["epoch"]), _assignment(value["before"]["shares"]), value["before"]["memory"]
        )
        return Layout(
            epoch=int(value["epoch"]),
            shares=_assignment(value["shares"]),
            objects=int(value["objects"]),
            before=before,
            ready=value["ready"] is True,
            memory=value["memory"],
        )
    except (ValueError, KeyError, TypeError):
        return None
