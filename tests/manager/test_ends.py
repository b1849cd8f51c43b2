"""The end of a machine, which its agent wrote or a job forged."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from gpu_agent.machine import gpu_use
from gpu_agent.report import job_of
from gpu_ci.machine_records import GpuUse
from gpu_manager.ends import end_of
from gpu_manager.model import End, RunKey
from hypothesis import given
from hypothesis import strategies as st


def read(**values: Any) -> End:
    end = end_of(json.dumps({"reason": "job-done", **values}))
    assert end is not None
    return end


def test_what_the_agent_measured_is_read() -> None:
    end = read(
        phases={"driver": 3.1, "after-job": 0},
        gpuUse=gpu_use.GpuUse(0.41, 9120, 51230.5).as_json(),
        job=job_of({"repository": "acme/kernels", "run_id": "10001", "run_attempt": "2"}),
    )
    assert end == End(
        "job-done",
        phases={"driver": 3.1, "after-job": 0.0},
        gpu_use=GpuUse(util_avg=0.41, mem_max_mib=9120, joules=51230.5),
        run=RunKey("acme/kernels", 10001),
    )
    assert len({end, end}) == 1


@pytest.mark.parametrize("values", [{}, {"phases": {}, "gpuUse": None, "job": None}, {"job": {}, "gpuUse": {}}])
def test_an_end_without_measurements_has_none(values: dict[str, Any]) -> None:
    assert read(**values) == End("job-done")


BAD = [-1, math.nan, math.inf, -math.inf, 10**400, 1e300, True, "3", None, [3], {"a": 3}]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_number_is_none_and_the_others_stay(bad: Any) -> None:
    assert read(phases={"driver": bad, "check": 10.8}).phases == {"check": 10.8}
    use = read(gpuUse={"utilAvg": bad, "memMaxMib": 9120, "joules": 5}).gpu_use
    assert use == GpuUse(mem_max_mib=9120, joules=5)
    use = read(gpuUse={"utilAvg": 0.5, "memMaxMib": bad, "joules": bad}).gpu_use
    assert use == GpuUse(util_avg=0.5)
    assert read(job={"repository": "acme/kernels", "run": bad, "attempt": 1}).run is None


@pytest.mark.parametrize("use", [{"utilAvg": 1.01}, {"memMaxMib": 9120.5}, {"joules": 3e13}])
def test_a_use_without_a_valid_value_is_none(use: dict[str, float]) -> None:
    assert read(gpuUse=use).gpu_use is None


@pytest.mark.parametrize(
    "repository", ["", "acme", "acme/ker nels", "acme/\x1b[31m", "a/b/c", "acme/" + "k" * 101, "\u00e4/b", 7, None]
)
def test_a_job_of_no_repository_is_none(repository: Any) -> None:
    assert read(job={"repository": repository, "run": 1, "attempt": 1}).run is None


def test_phases_are_few_and_have_the_names_of_steps() -> None:
    names = [*(f"step-{number}" for number in range(40)), "\x1b[31m", "x" * 41, "Driver", ""]
    assert read(phases=dict.fromkeys(reversed(names), 1)).phases == {f"step-{39 - n}": 1.0 for n in range(32)}


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers() | st.floats() | ANY


@given(
    st.fixed_dictionaries(
        {"reason": st.just("job-done")},
        optional={
            "phases": ANY | st.dictionaries(st.text() | st.just("driver"), NUMBERS),
            "gpuUse": ANY
            | st.fixed_dictionaries({}, optional=dict.fromkeys(("utilAvg", "memMaxMib", "joules"), NUMBERS)),
            "job": ANY
            | st.fixed_dictionaries({"repository": st.just("acme/kernels") | ANY, "run": NUMBERS, "attempt": NUMBERS}),
        },
    )
)
def test_no_json_raises_or_gives_a_value_out_of_range(value: dict[str, Any]) -> None:
    end = read(**value)
    assert all(0 <= sec <= 1e8 for sec in end.phases.values())
    if end.gpu_use:
        GpuUse.model_validate(end.gpu_use.model_dump(), strict=True)
    if end.run:
        assert end.run.repository.isprintable()
        assert end.run.run_id >= 1
