"""Shares for several managers of one stack. A share is a part of the pools; shares do not overlap.

Each share has its own object in the bucket, with its memory, view and lease (bucket.py). A manager acts for a share
while it has the share's lease. Another object, the layout, lists the pools of each share. If a manager's configuration
has a different layout, the manager waits until all leases of the current layout have ended. It then writes its own
layout, and takes over the memories of all previous shares:

1. It writes the layout as not ready. No manager acts on such a layout.
2. It overwrites each object of the previous layout after the object's lease has ended, and only the generation that it
   has read. A process that was suspended meanwhile finds another generation, and can no longer write.
3. It writes the layout as ready, with the memories of these objects.

A process that takes a lease reads the layout again before it acts. If the layout has changed, the process gives the
lease back. Otherwise it took the lease before step 2, which waits until the lease ends.
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
from .storage_api import Changed, StorageObject, StoredContent

SPARE_SEC = 120.0
"""After this time without a holder, a share may be taken by a manager that already has another share."""
WAITING_SEC = 30.0
"""A manager without a share writes the object `waiting` again and again. It counts as waiting for this time after a
write.
"""
_BREAK_SEC = 60.0
"""The time for which a manager that gave up a share takes no other."""
# The text for the log while the layout changes.
_CHANGING = "another process changes the shares"


@dataclass(frozen=True)
class Share:
    """A share whose lease this process has."""

    index: int
    """The position of the share in the layout, from 0."""
    pools: tuple[str, ...]
    store: BucketStore | SqliteStore


class PreviousLayout(NamedTuple):
    """The previous layout: the last layout that was ready. The fields are those of Layout."""

    epoch: int
    shares: Assignment
    memory: Any


@dataclass(frozen=True)
class Layout:
    """The layout: the pools of each share."""

    epoch: int
    """The number of the layout: one more than in the previous layout. A share's memory of another epoch is ignored."""
    shares: Assignment
    objects: int
    """The largest number of shares that any layout had: the number of objects that may exist."""
    before: PreviousLayout
    ready: bool = False
    memory: Any = None
    """The initial memory of all shares in the form of JSON: the memories of the previous shares."""


class WholeFile:
    """All pools as one share, for a manager on one computer."""

    def __init__(self, store: SqliteStore, pools: tuple[str, ...]) -> None:
        self._store, self._pools = store, pools

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> Share | None:
        """Take the file for this process. Raises InUse if another process has it."""
        return Share(0, self._pools, self._store) if self._store.hold(stopped, waiting) else None

    def spare(self, own_indexes: Collection[int]) -> Share | None:  # noqa: ARG002 - there is only one share
        return None

    def another_waits(self) -> bool:
        return False


class Shares:
    """The shares of one stack in one bucket. `holder` is a name of this process that no other process ever has.

    Args:
        objects: Opens the object of a name.
        name: The name of the first share's object, such as state.json. The other names are derived from it.
        wanted: The shares in the configuration of this process.
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
        self._announced_at = self._gave_up_at = float("-inf")
        self._missing_since: dict[int, float] = {}
        """When the object of a share was first missing, by the share's index."""
        self._opened: dict[int, StorageObject] = {}
        self._layout_exists = False
        """True after this process has tried to create the layout's object."""

    def hold(self, stopped: Event, waiting: Callable[[str], None]) -> Share | None:
        """Take a share and renew its lease from now on. Return None if `stopped` is set first. Raises Refused.

        While other processes hold all shares, the method waits and reports the holders.
        """
        while not stopped.is_set():
            try:
                taken = self.take()
            except Unavailable as error:
                waiting(str(error))
            else:
                if isinstance(taken, Share):
                    taken.store.renew_in_background()
                    return taken
                waiting(taken)
            stopped.wait(POLL_SEC)
        return None

    def take(self) -> Share | str:
        """Take the lease of a free share and return the share, or a text that says why none is free.

        Raises Unavailable or Refused.
        """
        layout = self._ready_layout()
        if isinstance(layout, str):
            return layout
        holders = []
        for index in range(len(self._wanted)):
            taken = self._take(layout, index)
            if isinstance(taken, Share) or taken == _CHANGING:
                return taken
            holders.append(taken)
        self._announce_waiting()
        *_, last = names = list(dict.fromkeys(holders))
        return f"{last} has the lease" if len(names) == 1 else f"{', '.join(names)} have the leases"

    def spare(self, own_indexes: Collection[int]) -> Share | None:
        """Take one more share that has had no holder for a while, or return None. Raises Unavailable or Refused."""
        if self._clock() - self._gave_up_at < _BREAK_SEC:
            return None
        _, layout = self._read()
        if layout.shares != self._wanted or not layout.ready:
            return None
        for index in sorted(set(range(len(self._wanted))) - set(own_indexes)):
            if self._is_abandoned(index):
                taken = self._take(layout, index)
                if isinstance(taken, Share):
                    self._missing_since.pop(index, None)
                    return taken
        return None

    def another_waits(self) -> bool:
        """Return True if a manager without a share waits for a share.

        After it has returned True, the method returns False for a while, so that the caller gives up only one share.
        """
        with suppress(Unavailable, Refused):
            found = self._waiting.read()
            if found and found.age_sec < WAITING_SEC and self._clock() - self._gave_up_at > WAITING_SEC:
                self._gave_up_at = self._clock()
                return True
        return False

    # -- the layout ---------------------------------------------------------------------------------------------------

    def _ready_layout(self) -> Layout | str:
        """Return this process's layout when it is ready, or a text that says why it is not. Writes it if necessary."""
        generation, layout = self._read()
        if layout.shares != self._wanted:
            if holder := self._any_holder(layout):
                return f"{holder}, which has another configuration, has a lease"
            before = PreviousLayout(layout.epoch, layout.shares, layout.memory) if layout.ready else layout.before
            count = max(layout.objects, len(self._wanted))
            layout = Layout(layout.epoch + 1, self._wanted, count, before)
            changed = self._write(layout, generation)
            if changed is None:
                return _CHANGING
            generation = changed
        return layout if layout.ready else self._make_ready(layout, generation)

    def _make_ready(self, layout: Layout, generation: int) -> Layout | str:
        """End every lease of the previous layout, and collect the memories of its shares."""
        before, pools_without_memory = layout.before, set[str]()
        memories: list[Memory | None] = []
        for index in range(layout.objects):
            values = self._end_lease(index)
            if isinstance(values, str):
                return f"{values}, which has another configuration, has a lease"
            if values["epoch"] == before.epoch:
                memories.append(_memory(values["memory"]))
            elif index < len(before.shares):
                pools_without_memory |= set(before.shares[index])
        # A share that had no manager under the previous layout still has the memory with which that layout began.
        initial_memory = _memory(before.memory)
        memories.append(
            of_pools(initial_memory, pools_without_memory) if initial_memory and pools_without_memory else None
        )
        memory = json.loads(to_json(merged([each for each in memories if each])))
        done = replace(layout, ready=True, memory=memory)
        # The layout was written moments ago, and Cloud Storage accepts one write a second for each object.
        self._sleep(WRITE_SEC)
        return done if self._write(done, generation) is not None else _CHANGING

    def _end_lease(self, index: int) -> dict[str, Any] | str:
        """Overwrite a share's object, so that its last holder can no longer write.

        Returns the content, or the name of the process that still has the lease.
        """
        share = self._share_object(index)
        empty = {"memory": None, "view": None, "epoch": 0}
        # The write comes before the read, because without storage.objects.list Google answers 403 for a missing object.
        with suppress(Changed):
            share.write(share_content(empty, ""), 0)
            return empty
        found = share.read()
        if found is None:
            return "another process"
        if holder := _holder(found):
            return holder
        _, values = parsed_share(found)
        try:
            share.write(share_content(values, ""), found.generation)
        except Changed:
            return "another process"
        return values

    def _any_holder(self, layout: Layout) -> str:
        """Return the name of a process that holds a lease of the layout, or ""."""
        for index in range(max(layout.objects, len(layout.shares))):
            # A missing object has no lease. Google answers 403 for it without the permission to list objects.
            with suppress(Refused):
                found = self._share_object(index).read()
                if found and (holder := _holder(found)):
                    return holder
        return ""

    def _read(self) -> tuple[int, Layout]:
        """Return the generation and the layout. If it is missing, this process creates it."""
        first = Layout(1, self._wanted, len(self._wanted), PreviousLayout(0, (), None))
        if not self._layout_exists:
            self._layout_exists = True
            with suppress(Changed):
                return self._layout.write(_layout_content(first), 0), first
        found = self._layout.read()
        if found is None:
            raise Unavailable(f"{self._layout}: was deleted while it was read")
        return found.generation, _parsed_layout(found.content) or first

    def _write(self, layout: Layout, generation: int) -> int | None:
        """Write the layout and return the new generation, or None if another process has changed it."""
        try:
            return self._layout.write(_layout_content(layout), generation)
        except Changed:
            return None

    # -- one share ----------------------------------------------------------------------------------------------------

    def _take(self, layout: Layout, index: int) -> Share | str:
        """Take the lease of one share. Return the share, or the name of the process that has the lease."""
        # Google answers 403 for a missing object without the permission to list. The store then creates the object.
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

    def _is_abandoned(self, index: int) -> bool:
        """Return True if the share has had no holder for SPARE_SEC. A share without an object counts too."""
        found = None
        with suppress(Refused):
            found = self._share_object(index).read()
        if found is None:
            return self._clock() - self._missing_since.setdefault(index, self._clock()) > SPARE_SEC
        (holder, _), _ = parsed_share(found)
        return found.age_sec > (SPARE_SEC if holder == "" else SPARE_SEC + LEASE_SEC)

    def _announce_waiting(self) -> None:
        """Write the object `waiting`, so that a manager with several shares gives one up (another_waits)."""
        if self._clock() - self._announced_at < WAITING_SEC / 3:
            return
        self._announced_at = self._clock()
        content = json.dumps({"waiting": self._holder}).encode()
        with suppress(Unavailable, Refused, Changed):
            try:
                self._waiting.write(content, 0)
            except Changed:
                if found := self._waiting.read():
                    self._waiting.write(content, found.generation)

    def _share_object(self, index: int) -> StorageObject:
        """Return the object of a share, for this class alone. Each store opens its own, for the thread that renews."""
        if index not in self._opened:
            self._opened[index] = self._objects(share_name(self._name, index))
        return self._opened[index]


def share_name(name: str, index: int) -> str:
    """Return the name of a share's object. The first one has the given name."""
    return name if index == 0 else _with_suffix(name, str(index + 1))


def layout_name(name: str) -> str:
    """Return the name of the layout's object."""
    return _with_suffix(name, "layout")


def shares_in(layout: StorageObject) -> int:
    """Return the number of shares, or 1 if no layout was written. Raises Unavailable."""
    with suppress(Refused):  # 403 for a missing object
        if (found := layout.read()) and (parsed := _parsed_layout(found.content)):
            return len(parsed.shares)
    return 1


def _holder(found: StoredContent) -> str:
    """Return the holder of a share's lease, or "" if the share is free."""
    (holder, lease_sec), _ = parsed_share(found)
    return holder if found.age_sec < lease_sec else ""


def _with_suffix(name: str, part: str) -> str:
    """Return the name with a part before its ending: `2` turns state.json into state.2.json."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.{part}{dot}{ending}" if dot and "/" not in ending else f"{name}.{part}"


def _memory(content: Any) -> Memory | None:
    try:
        return from_json(json.dumps(content).encode()) if content else None
    except ValueError:
        # An empty memory has `begun` False: the manager looks for inserts of the lost memory before it starts anything.
        return Memory()


def _layout_content(layout: Layout) -> bytes:
    return json.dumps({**vars(layout), "before": layout.before._asdict()}).encode()


def _assignment(value: Any) -> Assignment:
    return tuple(tuple(str(pool) for pool in share) for share in value)


def _parsed_layout(content: bytes) -> Layout | None:
    try:
        value = json.loads(content)
        before = PreviousLayout(
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
