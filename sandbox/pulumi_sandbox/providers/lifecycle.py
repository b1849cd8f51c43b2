"""The engine's operations on a resource: Check, Diff, Create, Read, Update and Delete.

Each operation calls the hooks of a cloud (cloud.py), and reads or writes the resource's row in the world, the emulated
cloud state.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulumi_sandbox.providers import paths, placeholders
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.diff import Change, Comparison, compare, without_ignored
from pulumi_sandbox.providers.inputs import without_bridge_keys
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
        problems = checked.problems or self._broken_rules(res)
        return mark_secrets(Decoded(res.inputs, res.secrets), shape.secret_inputs), problems

    def _broken_rules(self, res: Resource) -> list[Problem]:
        """Return the problems that the rules find. A placeholder of another resource's output breaks no rule."""
        inputs = res.inputs
        try:
            res.inputs = placeholders.hide(inputs)
            return list(self.cloud.rules(res))
        finally:
            res.inputs = inputs

    def diff(self, res: Resource, old: Decoded, ignored: Sequence[str]) -> tuple[list[Change], bool]:
        """Return the changes, and whether a replacement must delete the old resource first."""
        cloud = self.cloud
        comparison = Comparison(lambda path, was, is_: cloud.same(res.token, path, was, is_), cloud.coerces_scalars)
        changes = compare(
            old.values,
            res.inputs,
            ignored=ignored,
            old_secrets=old.secrets,
            new_secrets=res.secrets,
            comparison=comparison,
        )
        changes += without_ignored(cloud.forced_changes(res), ignored)
        return changes, bool(changes) and cloud.deletes_old_first(res)

    def replaces(self, res: Resource, path: str) -> bool | None:
        name = paths.parse(path)[0]
        if name not in (res.old_inputs or {}):
            record = self.context.world.get(res.token, res.id)
            if record and not record.urn:
                return False  # Only some inputs of an imported resource are known: see `_listed`.
        answer = self.cloud.replaces(res.token, path)
        if answer is not None:
            return answer
        with self._lock:
            first = res.token not in self._reported
            self._reported.add(res.token)
        if first:
            res.log(f"{res.token}: only its shape is checked; a change replaces it only if its SDK says so", "info")
        return self.cloud.replaces_by_documentation(res.token, path)

    def create(self, res: Resource) -> Decoded:
        if res.preview:
            shape = self.shape(res.token)
            outputs = dict.fromkeys(shape.outputs, UNKNOWN) if shape else {}
            return self._with_secrets(
                res, {**outputs, **without_bridge_keys(res.inputs), **self.cloud.preview_outputs(res)}
            )
        self._refuse(res)
        self._apply_faults(res)
        world = self.context.world
        with world.transaction():
            res.id = self.cloud.identity(res)
            new_outputs = self._with_secrets(res, self._all_outputs(res, without_bridge_keys(res.inputs)))
            res.outputs = new_outputs.values
            if self.cloud.overwrites(res.token):
                world.delete(res.token, res.id, "overwritten")
            try:
                world.insert(self._record(res, new_outputs))
            except Exists:
                raise Refused(self.cloud.already_exists(res)) from None
            self.cloud.created(res)
        return self._await_ready(res, new_outputs)

    def update(self, res: Resource, old: Decoded) -> Decoded:
        old_inputs, world = res.old_inputs or {}, self.context.world
        merged_inputs = {
            name: value for name, value in old.values.items() if name not in old_inputs or name in res.inputs
        }
        merged_inputs |= without_bridge_keys(res.inputs)
        if res.preview:
            return self._with_secrets(res, {**merged_inputs, **self.cloud.preview_outputs(res)}, old)
        self._refuse(res)
        self._apply_faults(res)
        with world.transaction():
            record = world.get(res.token, res.id)
            if record is None:
                raise Refused(
                    f"{res.token}: {res.id} no longer exists\n"
                    f"  hint: run `pulumi-sandbox refresh --stack {res.stack}` to remove it from the state"
                )
            res.outputs = old.values
            new_outputs = self._with_secrets(res, self._all_outputs(res, merged_inputs), old)
            res.outputs = new_outputs.values
            new_record = self._record(res, new_outputs)
            world.update(res.token, res.id, inputs=new_record.inputs, outputs=new_record.outputs)
            if record.urn != res.urn:
                world.assign_to_stack(res.token, res.id, res.urn, res.name)
            self.cloud.updated(res)
        return self._await_ready(res, new_outputs, old)

    def read(
        self, token: str, resource_id: str, engine_values: Sequence[Decoded]
    ) -> tuple[str, Decoded, Decoded] | None:
        """Return the id, outputs and inputs of a resource, or None if it does not exist.

        `engine_values` are the outputs and inputs in the engine's state.
        """
        record = self.cloud.locate(token, resource_id)
        if record is None and not any(value.values for value in engine_values):
            record = self._listed(token, resource_id)
        if record is None:
            return None
        record = self.cloud.observed(record)
        key, shape = self.context.world.key, self.shape(token)
        write_only = self.cloud.write_only(token)
        outputs, inputs = (
            with_engine_values(restore_secrets(stored_values, engine_values, key), engine_value, write_only)
            for stored_values, engine_value in zip((record.outputs, record.inputs), engine_values, strict=True)
        )
        outputs = mark_secrets(outputs, shape.secret_outputs if shape else ())
        if not_ready := self.cloud.not_ready(record):
            raise not_ready.with_resource(record.id, outputs)
        return record.id, outputs, mark_secrets(inputs, shape.secret_inputs if shape else ())

    def _listed(self, token: str, import_id: str) -> Record | None:
        """Return the row of a resource that sandbox.yaml lists. It is written when a stack first imports it."""
        found = self.cloud.listed(token, import_id)
        if found is None:
            return None
        resource_id, inputs = found
        name = resource_id.rsplit("/", 1)[-1]
        res = Resource(token, name, "", self.context.world, inputs, config=self.context.config, id=resource_id)
        record = self._record(res, self._with_secrets(res, self._all_outputs(res, inputs)))
        self.context.world.insert(record)
        return record

    def delete(self, res: Resource) -> None:
        """Delete a resource. As with the vendors' providers, a resource that does not exist is not an error."""
        world = self.context.world
        # Outside the transaction, because its rollback would also undo the count of the fault.
        fault = world.get(res.token, res.id) and world.take_fault("busy", res.token, res.name, **fault_attributes(res))
        if fault:
            raise Refused(fault.message or self.cloud.fault_text(fault, res))
        with world.transaction():
            if world.get(res.token, res.id) is None:
                return
            self._raise_first(self.cloud.delete_blockers(res))
            if self.cloud.remains(res.token):
                world.assign_to_stack(res.token, res.id, "", res.name)
            else:
                world.delete(res.token, res.id, res.name)
            self.cloud.deleted(res)

    def _await_ready(self, res: Resource, all_outputs: Decoded, old: Decoded | None = None) -> Decoded:
        if self.context.world.take_fault("crash", res.token, res.name, id=res.id):
            self.die()
        try:
            changed_outputs, error = self.cloud.await_ready(res), None
        except NotReady as not_ready:
            changed_outputs, error = not_ready.outputs, not_ready
        if changed_outputs:
            all_outputs = self._with_secrets(res, merge_outputs(all_outputs.values, changed_outputs), old)
            self.context.world.update(res.token, res.id, outputs=self._record(res, all_outputs).outputs)
        if error:
            raise error.with_resource(res.id, all_outputs)
        return all_outputs

    def _all_outputs(self, res: Resource, outputs: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs with those that the cloud computes, and with placeholders for missing ones."""
        all_outputs = merge_outputs(outputs, self.cloud.computed(res))
        if self.cloud.emulates(res.token):
            return all_outputs
        return all_outputs | self.cloud.placeholders.missing(res.token, res.urn, all_outputs)

    def _record(self, res: Resource, outputs: Decoded) -> Record:
        key = self.context.world.key
        inputs = hash_secrets(res.inputs, res.secrets, key)
        return Record(res.token, res.id, res.name, res.urn, inputs, hash_secrets(outputs.values, outputs.secrets, key))

    def _with_secrets(self, res: Resource, outputs: dict[str, Any], old: Decoded | None = None) -> Decoded:
        shape = self.shape(res.token)
        secret_names = set(shape.secret_outputs) if shape else set()
        # A secret output stays secret, unless an input of the same name exists and is not secret.
        secret_names |= {str(path[0]) for path in (old.secrets if old else NO_SECRETS) if path[0] not in res.inputs}
        return Decoded(outputs, secret_paths(outputs, res.inputs, res.secrets, secret_names))

    def _refuse(self, res: Resource) -> None:
        """Raise the first refusal, except those of a placeholder: it refers to no resource of the sandbox."""
        self._raise_first(one for one in self.cloud.refusals(res) if placeholders.MARK not in one)

    def _raise_first(self, reasons: Iterable[str]) -> None:
        for reason in reasons:
            raise Refused(reason)

    def _apply_faults(self, res: Resource) -> None:
        """Apply the planted faults that take effect before the resource is created or updated."""
        world = self.context.world
        slow_fault = world.take_fault("slow", res.token, res.name, id=res.id)
        if slow_fault:
            self._wait_for_slow_fault(slow_fault, res)
        for kind in ("refuse", *self.cloud.fault_kinds(res.token)):
            fault = world.take_fault(kind, res.token, res.name, **fault_attributes(res))
            if fault:
                raise Refused(fault.message or self.cloud.fault_text(fault, res))

    def _wait_for_slow_fault(self, fault: Fault, res: Resource) -> None:
        deadline = time.monotonic() + fault.seconds
        while (remaining_seconds := deadline - time.monotonic()) > 0:
            res.log(f"slow (a planted fault): {remaining_seconds:.0f} s more", "status")
            if self.context.cancelled.wait(min(remaining_seconds, 5.0)):
                raise Refused(CANCELLED)


def fault_attributes(res: Resource) -> dict[str, str]:
    place = {name: res.inputs[name] for name in ("zone", "region") if isinstance(res.inputs.get(name), str)}
    return {"id": res.id, **place}


def mark_secrets(values: Decoded, secret_names: Iterable[str]) -> Decoded:
    """Return the values, and mark as secret also those that the SDK names as secret."""
    paths = {(name,) for name in secret_names if values.values.get(name) is not None}
    return Decoded(values.values, drop_nested({*values.secrets, *paths}))


def with_engine_values(stored: Decoded, engine_values: Decoded, write_only: Collection[str]) -> Decoded:
    """Return the values read from the world, with the engine's values for inputs that the vendor never returns."""
    values = {name: value for name, value in stored.values.items() if name not in write_only}
    values |= {name: engine_values.values[name] for name in write_only if name in engine_values.values}
    secrets = {path for path in stored.secrets if path[0] not in write_only}
    return Decoded(values, frozenset(secrets | {path for path in engine_values.secrets if path[0] in write_only}))


def merge_outputs(outputs: dict[str, Any], computed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**outputs, **computed}.items() if value is not None}
