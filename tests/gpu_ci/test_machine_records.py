"""The parts of a machine's cost: none is negative, and their sum is the cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gpu_ci.machine_records import JobOfMachine, MachineRecord
from hypothesis import example, given
from hypothesis import strategies as st

BEGIN = datetime(2026, 11, 29, tzinfo=UTC)
micros = st.integers(min_value=0, max_value=10**12)


def record(times: list[int], started: int, completed: int | None, taken_back: bool) -> MachineRecord:
    """Return a record with an interval for each pair of times, all in microseconds since BEGIN."""
    moments = [BEGIN + timedelta(microseconds=each) for each in sorted(times)]
    done = None if completed is None else BEGIN + timedelta(microseconds=started + completed)
    begin = BEGIN + timedelta(microseconds=started)
    job = JobOfMachine(repository="acme/kernels", run=1, attempt=1, id=1, created=BEGIN, started=begin, completed=done)
    common: dict[str, Any] = {"manager": "ci", "pool": "l4", "machine": "l4-a", "zone": "a", "machine_type": "b"}
    return MachineRecord(
        **common, market="spot", usd_per_hour=0.5121, requested=moments[0], gone=moments[-1], taken_back=taken_back,
        on=list(zip(moments[::2], moments[1::2], strict=True)), job=job,
    )  # fmt: skip


@given(st.lists(micros, min_size=2, max_size=8).filter(lambda each: len(each) % 2 == 0), micros, micros | st.none(),
       st.booleans())  # fmt: skip
@example([0, 789658324], 13421809, 3118990, False)
def test_no_part_is_negative_and_their_sum_is_the_cost(
    times: list[int], started: int, completed: int | None, taken_back: bool
) -> None:
    found = record(times, started, completed, taken_back)
    assert found.usd is not None
    parts = found.parts(found.usd)
    assert min(parts) >= 0.0
    assert sum(parts) == pytest.approx(found.usd, abs=1e-9)
    assert (parts.job == 0.0) if taken_back else (parts.lost == 0.0)
    assert found.job_sec <= found.on_sec
