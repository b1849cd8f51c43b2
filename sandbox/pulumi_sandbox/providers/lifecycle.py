"""The operations Check, Diff, Create, Read, Update and Delete on the rows of the world, with the hooks of a cloud."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.diff import Change, Comparison, compare, without_ignored
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import DEFAULTS, Context, Problem, Refused, Resource
from pulumi_sandbox.providers.sdk.shapes import UnknownTypeError
from pulumi_sandbox.providers.sdk.types import Shape
from pulumi_sandbox.providers.secret_digests import hash_secrets, restore_secrets, secret_paths
from pulumi_sandbox.providers.values import NO_SECRETS, UNKNOWN, Decoded, drop_nested
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Exists, Record

CANCELLED = "cancelled while it waited"


def die() -> None:
    """Exit at once, without cleanup or answer. The exit code is that of a process killed by SIGKILL."""
    os._exit(137)


@dataclass
class Lifecycle:
    """The lifecycle of one provider's resources. Safe to use from several threads."""

    cloud: Cloud
    context: Context
    die: Callable[[], None] = die
    _reported: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def resource(self, urn: str, inputs: Decoded, **more: Any) -> Resource:
        parts = urn.split("::", 3)
        stack, project, kind, name = parts if len(parts) == 4 else ("", "", "", urn)
        return Resource(
            token=kind.rpartition("$")[2],
            name=name,
            urn=urn,
            world=self.context.world,
            inputs=inputs.values,
            secrets=inputs.secrets,
            config=self.context.config,
            project=project,
            stack=stack.removeprefix("urn:pulumi:"),
            **more,
        )

    def shape(self, token: str) -> Shape | None:
        try:
            return self.cloud.shapes.shape(token)
        except UnknownTypeError:
            return None

    def check(self, res: Resource) -> tuple[Decoded, list[Problem]]:
        """Return the inputs in the form that the provider stores, and all their problems."""
        cloud = self.cloud
        checked = cloud.shapes.check(res.token, res.inputs, coerces_scalars=cloud.coerces_scalars, secrets=res.secrets)
        res.inputs = dict(checked.inputs)
        shape = self.shape(res.token)
        if shape is None:
            return Decoded(res.inputs, res.secrets), checked.problems
        if cloud.coerces_scalars:
            res.inputs.setdefault(DEFAULTS, [])
        cloud.autoname(res)
        # Rules run only if the shape is right. On a value of the wrong type they would only repeat its problem.
        problems = checked.problems or list(cloud.rules(res))
        return hidden(Decoded(res.inputs, res.secrets), shape.secret_inputs), problems

    def diff(self, res: Resource, old: Decoded, ignored: Sequence[str]) -> tuple[list[Change], bool]:
        """Return the changes, and whether a replacement must delete the old resource first."""
        cloud = self.cloud
        how = Comparison(lambda path, was, is_: cloud.same(res.token, path, was, is_), cloud.coerces_scalars)
        changes = compare(
            old.values, res.inputs, ignored=ignored, old_secrets=old.secrets, new_secrets=res.secrets, how=how
        )
        changes += without_ignored(cloud.forced(res), ignored)
        return changes, bool(changes) and cloud.keeps_name(res)

    def replaces(self, res: Resource, path: str) -> bool | None:
        answer = self.cloud.replaces(res.token, path)
        if answer is not None:
            return answer
        with self._lock:
            first = res.token not in self._reported
            self._reported.add(res.token)
        if first:
            res.log(f"{res.token}: only its shape is checked; a change replaces it only if its SDK says so", "info")
        return self.cloud.documented(res.token, path)

    def create(self, res: Resource) -> Decoded:
        if res.preview:
            shape = self.shape(res.token)
            outputs = dict.fromkeys(shape.outputs, UNKNOWN) if shape else {}
            return self._marked(res, {**outputs, **visible(res.inputs), **self.cloud.planned(res)})
        self._refuse(self.cloud.refusals(res))
        self._suffer(res)
        world = self.context.world
        with world.transaction():
            res.id = self.cloud.identity(res)
            made = self._marked(res, merged(visible(res.inputs), self.cloud.computed(res)))
            res.outputs = made.values
            if self.cloud.overwrites(res.token):
                world.delete(res.token, res.id, "overwritten")
            try:
                world.insert(self._row(res, made))
            except Exists:
                raise Refused(self.cloud.taken(res)) from None
            self.cloud.created(res)
        return self._settle(res, made)

    def update(self, res: Resource, old: Decoded) -> Decoded:
        before, world = res.old_inputs or {}, self.context.world
        kept = {name: value for name, value in old.values.items() if name not in before or name in res.inputs}
        kept |= visible(res.inputs)
        if res.preview:
            return self._marked(res, {**kept, **self.cloud.planned(res)}, old)
        self._refuse(self.cloud.refusals(res))
        self._suffer(res)
        with world.transaction():
            record = world.get(res.token, res.id)
            if record is None:
                raise Refused(
                    f"{res.token}: {res.id} no longer exists\n"
                    f"  hint: run `pulumi-sandbox refresh --stack {res.stack}` to remove it from the state"
                )
            res.outputs = old.values
            made = self._marked(res, merged(kept, self.cloud.computed(res)), old)
            res.outputs = made.values
            row = self._row(res, made)
            world.update(res.token, res.id, inputs=row.inputs, outputs=row.outputs)
            if record.urn != res.urn:
                world.claim(res.token, res.id, res.urn, res.name)
            self.cloud.updated(res)
        return self._settle(res, made, old)

    def read(self, token: str, given: str, known: Sequence[Decoded]) -> tuple[str, Decoded, Decoded] | None:
        """Return the id, outputs and inputs of a resource, or None if it does not exist.

        `known` has the outputs and inputs of the engine's state.
        """
        record = self.cloud.locate(token, given)
        if record is None:
            return None
        record = self.cloud.observed(record)
        key, shape = self.context.world.key, self.shape(token)
        untold = self.cloud.write_only(token)
        outputs, inputs = (
            remembered(restore_secrets(stored, known, key), engine, untold)
            for stored, engine in zip((record.outputs, record.inputs), known, strict=True)
        )
        outputs = hidden(outputs, shape.secret_outputs if shape else ())
        if stuck := self.cloud.stuck(record):
            raise stuck.of(record.id, outputs)
        return record.id, outputs, hidden(inputs, shape.secret_inputs if shape else ())

    def delete(self, res: Resource) -> None:
        """Delete a resource. As with the vendors' providers, a resource that does not exist is not an error."""
        world = self.context.world
        # Outside the transaction, because its rollback would also undo the count of the fault.
        busy = world.get(res.token, res.id) and world.take("busy", res.token, res.name, **attributes(res))
        if busy:
            raise Refused(busy.message or self.cloud.fault_text(busy, res))
        self.cloud.drain(res)
        with world.transaction():
            if world.get(res.token, res.id) is None:
                return
            self._refuse(self.cloud.delete_blockers(res))
            world.delete(res.token, res.id, res.name)
            self.cloud.deleted(res)

    def _settle(self, res: Resource, made: Decoded, old: Decoded | None = None) -> Decoded:
        if self.context.world.take("crash", res.token, res.name, id=res.id):
            self.die()
        try:
            later, unready = self.cloud.await_ready(res), None
        except NotReady as stuck:
            later, unready = stuck.outputs, stuck
        if later:
            made = self._marked(res, merged(made.values, later), old)
            self.context.world.update(res.token, res.id, outputs=self._row(res, made).outputs)
        if unready:
            raise unready.of(res.id, made)
        return made

    def _row(self, res: Resource, made: Decoded) -> Record:
        key = self.context.world.key
        inputs = hash_secrets(res.inputs, res.secrets, key)
        return Record(res.token, res.id, res.name, res.urn, inputs, hash_secrets(made.values, made.secrets, key))

    def _marked(self, res: Resource, outputs: dict[str, Any], old: Decoded | None = None) -> Decoded:
        shape = self.shape(res.token)
        named = set(shape.secret_outputs) if shape else set()
        # A secret output stays secret, unless an input of the same name exists and is not secret.
        named |= {str(path[0]) for path in (old.secrets if old else NO_SECRETS) if path[0] not in res.inputs}
        return Decoded(outputs, secret_paths(outputs, res.inputs, res.secrets, named))

    def _refuse(self, reasons: Iterable[str]) -> None:
        for reason in reasons:
            raise Refused(reason)

    def _suffer(self, res: Resource) -> None:
        """Apply the planted faults that take effect before the resource is created or updated."""
        world = self.context.world
        slow = world.take("slow", res.token, res.name, id=res.id)
        if slow:
            self._wait(slow, res)
        for kind in ("refuse", *self.cloud.fault_kinds(res.token)):
            fault = world.take(kind, res.token, res.name, **attributes(res))
            if fault:
                raise Refused(fault.message or self.cloud.fault_text(fault, res))

    def _wait(self, slow: Fault, res: Resource) -> None:
        until = time.monotonic() + slow.seconds
        while (left := until - time.monotonic()) > 0:
            res.log(f"slow (a planted fault): {left:.0f} s more", "status")
            if self.context.cancelled.wait(min(left, 5.0)):
                raise Refused(CANCELLED)


def attributes(res: Resource) -> dict[str, str]:
    found = {name: res.inputs[name] for name in ("zone", "region") if isinstance(res.inputs.get(name), str)}
    return {"id": res.id, **found}


def hidden(values: Decoded, named: Iterable[str]) -> Decoded:
    """Return the values, and mark as secret also those that the SDK names as secret."""
    paths = {(name,) for name in named if values.values.get(name) is not None}
    return Decoded(values.values, drop_nested({*values.secrets, *paths}))


def remembered(seen: Decoded, engine: Decoded, untold: Collection[str]) -> Decoded:
    """Return the values read from the world, with the engine's values for inputs that the vendor never returns."""
    values = {name: value for name, value in seen.values.items() if name not in untold}
    values |= {name: engine.values[name] for name in untold if name in engine.values}
    secrets = {path for path in seen.secrets if path[0] not in untold}
    return Decoded(values, frozenset(secrets | {path for path in engine.secrets if path[0] in untold}))


def visible(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs without the keys of the bridge."""
    return {name: value for name, value in inputs.items() if not name.startswith("__")}


def merged(outputs: dict[str, Any], computed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**outputs, **computed}.items() if value is not None}
