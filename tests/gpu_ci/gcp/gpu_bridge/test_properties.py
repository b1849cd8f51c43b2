"""Random histories of builds and faults: no machine is left, and the log is complete up to the fault."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from gpu_ci.gcp.gate.compute_api import ApiError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.gpu_ci.gcp.gpu_bridge.cloud import EXHAUSTED, SETTINGS, UNAVAILABLE, Cloud, Step
from tests.gpu_ci.gcp.gpu_bridge.test_step import reap_all

FORBIDDEN = ApiError("forbidden", "Required 'compute.instances.get' permission for 'x'", 403)
OWN_CODES = {200 + number for number in range(15)}


class Bridge(RuleBasedStateMachine):
    """One bridge with at most 4 machines, and builds with faults at any time."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="gpu-bridge-")
        Path(self.folder.name, "file").write_text("content")
        self.cloud = Cloud()
        self.steps: list[Step] = []
        self.codes: list[int] = []
        self.disturbed: set[int] = set()
        """The steps that a fault may have hit."""
        self.cut_off: set[int] = set()
        """The steps that may have been unable to delete their machine."""

    def running(self) -> list[int]:
        return [number for number, step in enumerate(self.steps) if not step.is_over]

    @rule(lines=st.integers(1, 40), code=st.sampled_from([0, 1, 3, -9, -15]), retries=st.booleans())
    def start(self, lines: int, code: int, retries: bool) -> None:
        if len(self.steps) < 8:
            number = len(self.steps)
            step = Step(self.cloud, Path(self.folder.name), number, lines, code, retries_preempted=retries)
            self.steps.append(step)
            self.codes.append(code if code >= 0 else 128 - code)

    @rule(seconds=st.sampled_from([1, 5, 20, 60, 200, 700]))
    def advance(self, seconds: float) -> None:
        self.cloud.time.advance(seconds)
        self.cloud.tick()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.running()))
        self.steps[number].kill()
        self.disturbed.add(number)
        self.cut_off.add(number)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.running()))
        self.steps[number].cancel.set()
        self.disturbed.add(number)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), error=st.sampled_from([UNAVAILABLE, FORBIDDEN, EXHAUSTED]), after=st.integers(0, 5))
    def fail_call(self, data: st.DataObject, error: ApiError, after: int) -> None:
        number = data.draw(st.sampled_from(self.running()))
        client = self.steps[number].client
        client.failing[client.calls + after] = error
        self.disturbed.add(number)
        self.cut_off.add(number)

    @precondition(lambda self: self.cloud.machines)
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cloud.machines)))
        build = self.cloud.machines[name].body["labels"]["gpu-ci-build"]
        self.cloud.preempt(name)
        self.disturbed.add(int(build.rpartition("-")[2]))

    @rule(seconds=st.sampled_from([5, 60, 400]))
    def cut_network(self, seconds: float) -> None:
        self.disturbed |= set(self.running())
        self.cut_off |= set(self.running())
        self.cloud.is_cut = True
        self.cloud.time.advance(seconds)
        self.cloud.is_cut = False

    @precondition(lambda self: self.cloud.objects)
    @rule(data=st.data(), content=st.sampled_from([b"", b"lin", b"other\n"]))
    def alter_object(self, data: st.DataObject, content: bytes) -> None:
        names = sorted(name for name in self.cloud.objects if name.startswith("builds/"))
        if names:
            name = data.draw(st.sampled_from(names))
            self.cloud.change(name, content)
            self.disturbed.add(int(name.split("/")[1].rpartition("-")[2]))

    @rule()
    def reap(self) -> None:
        reap_all(self.cloud)

    @invariant()
    def never_too_many_machines(self) -> None:
        if hasattr(self, "cloud"):
            assert self.cloud.most_machines <= SETTINGS.max

    @invariant()
    def a_step_that_ends_has_deleted_its_machine(self) -> None:
        for machine in self.cloud.machines.values() if hasattr(self, "cloud") else ():
            number = int(machine.body["labels"]["gpu-ci-build"].rpartition("-")[2])
            assert not self.steps[number].is_over or number in self.cut_off

    @invariant()
    def output_is_a_part_of_what_the_command_printed(self) -> None:
        for step in getattr(self, "steps", []):
            printed = step.printed
            if step.build.options.retries_preempted and printed.count(b"line 1\n") > 1:
                # A step that runs its command once more prints the output from its beginning.
                printed = printed[printed.rindex(b"line 1\n") :]
            assert step.expected.startswith(printed)

    def teardown(self) -> None:
        if not hasattr(self, "cloud"):
            return
        for _ in range(4):
            self.cloud.time.advance(7200)
            self.cloud.tick()
        reap_all(self.cloud)
        assert self.cloud.machines == {}
        for number, step in enumerate(self.steps):
            assert step.is_over
            if step.task.is_dead:
                continue
            assert step.code == self.codes[number] or (number in self.disturbed and step.code in OWN_CODES), step.error
            if step.code == self.codes[number]:
                assert step.printed.endswith(step.expected)
        self.folder.cleanup()


def _test(examples: int, steps: int) -> Any:
    case = Bridge.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return case


TestBridge = _test(15, 25)
