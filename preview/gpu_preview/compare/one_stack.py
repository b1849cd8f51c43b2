"""Previews the head of one stack against its base, and turns every error into a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..engine import digest
from ..engine.digest import DigestError, DigestTooLargeError
from ..engine.exported_state import ExportedState
from ..engine.output import clean, failure
from ..environment.policy_packs import PolicySelection
from ..errors import PreviewError
from ..json_text import TooMuchError
from ..model import Counts, Stack, Status
from ..report import locations, policies
from ..report.analysis import Files, analyze
from .base_cache import Snapshot
from .checkout import Checkout

_PREVIEW_FAILED = "error: preview failed"


@dataclass(frozen=True)
class Comparison:
    """The checkouts of base and head, with the settings of the comparison."""

    before: Checkout
    after: Checkout
    selection: PolicySelection
    say: Callable[[str], None]
    base_failed: Mapping[str, str] = field(default_factory=dict)
    """The error messages of stacks that the base could not deploy, by name."""
    head_failed: str = ""
    """The reason why no stack of the head can run, or ""."""
    states: Mapping[str, ExportedState] = field(default_factory=dict)
    state_files: Mapping[str, Path] = field(default_factory=dict)
    max_usd_month: float | None = None
    saved: Snapshot | None = None
    """A copy of the deployed base; None if no other code of the head runs before this stack."""

    def stack(self, name: str) -> Stack:
        """Return the report on a stack."""
        began = time.monotonic()
        try:
            found = self._stack(name)
        except Exception as error:
            file = (self.after if name in self.after.files else self.before).file(name)
            text = f"the report on this stack failed, which is a bug in gpu-ci: {type(error).__name__}: {error}"
            found = Stack(stack=name, file=file, status=Status.FAILED, error=clean(text))
        return found.model_copy(update={"seconds": round(time.monotonic() - began, 1)})

    def _stack(self, name: str) -> Stack:
        before, after, state = self.before, self.after, self.states.get(name)
        old, new = before.files.get(name), after.files.get(name)
        file = (after if new else before).file(name)
        common = {"stack": name, "file": file, "state": self.state_files[name].name if state else ""}

        def stack_result(status: Status, **more: object) -> Stack:
            if (read := new or old) and (error := more.get("error")):
                more["place"] = locations.of_error(
                    str(error), read, file, after.root if status is Status.FAILED else None
                )
            return Stack.model_validate({**common, "status": status, **more})

        if name in self.base_failed:
            return stack_result(Status.BASE_FAILED, error=self.base_failed[name])
        try:
            if self.saved:
                self.saved.restore()
        except PreviewError as error:
            return stack_result(Status.FAILED, error=clean(str(error)))
        if new is None:
            remaining = digest.of_state(state.text if state else before.exported(name))
            return stack_result(Status.REMOVED, resources=remaining, counts=Counts.of(remaining))
        if self.head_failed:
            return stack_result(Status.FAILED, error=self.head_failed)
        try:
            after.set_placeholders(name)
            if state:
                self.say(f"{name}: importing the exported state, {state.summary}")
                after.import_state(name, state)
        except PreviewError as error:
            return stack_result(Status.FAILED, error=clean(str(error)))
        self.say(f"{name}: previewing the head")
        finished, events = after.preview(name, self.selection.options)
        try:
            found = digest.read(finished.stdout)
        except DigestTooLargeError as error:
            return stack_result(Status.FAILED, error=clean(f"the engine's digest {error}"))
        except DigestError:
            return stack_result(Status.FAILED, error=failure(finished, after.root))
        try:
            violations, packs_sentence = policies.violations(events)
        except TooMuchError as error:
            return stack_result(Status.FAILED, error=clean(f"the engine's event log exceeds the size limit: {error}"))
        # If a mandatory policy is violated, the engine fails the preview with an error that has no details.
        by_policy = any(each.level == "mandatory" for each in violations) and found.errors in ([], [_PREVIEW_FAILED])
        if finished.exceeded_limit or (not by_policy and (found.errors or finished.code)):
            error_text = failure(finished, after.root, found)
            return stack_result(Status.FAILED, error=error_text, resources=found.resources, counts=found.counts)
        files = Files(file, after.root, str(after.project.relative_to(after.root)), old, new, before.root)
        status = Status.NEW if old is None and state is None else Status.PREVIEWED
        stack = stack_result(status, violations=violations, policies=self.selection.sentence(packs_sentence))
        return analyze(stack, found, files, events=events, max_usd_month=self.max_usd_month)
