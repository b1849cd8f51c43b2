"""Names that are computed from their content."""

from __future__ import annotations

import pytest
from gpu_manager.decision.capacity import place
from gpu_manager.decision.names import machine_name, machine_of, slug
from gpu_manager.model import JobKey, Offer

KEY = JobKey("example-org/kernels", 11, 1, 1)


@pytest.mark.parametrize(
    ("runner", "machine"),
    [
        ("l4-0a1b2c3d", "l4-0a1b2c3d"),
        ("l4-0a1b2c3d-1234567890123456789", "l4-0a1b2c3d"),
        ("l4-0a1b2c3d-1234567890123456789-2", "l4-0a1b2c3d"),
        # Cut at 64 characters.
        ("l4-0a1b2c3d-12345678901234", "l4-0a1b2c3d"),
        # An earlier machine of that name.
        ("l4-0a1b2c3d-9934567890123456789", "l4-0a1b2c3d-9934567890123456789"),
        ("l4-0a1b2c3d-9934567890123456789-2", "l4-0a1b2c3d-9934567890123456789-2"),
        # A machine that is currently missing in the list.
        ("l4-99999999-1234567890123456789", "l4-99999999"),
        ("l4-ffffffff-1234567890123456789", "l4-ffffffff-1234567890123456789"),
        ("workstation", "workstation"),
        ("", ""),
    ],
)
def test_a_runner_is_of_the_machine_whose_name_it_begins_with(runner: str, machine: str) -> None:
    assert machine_of(runner, {"l4-0a1b2c3d": "1234567890123456789", "l4-99999999": ""}) == machine


def test_a_job_and_a_machine_keep_their_names_over_releases() -> None:
    """A manager of another release finds the machines and the memory of the previous one."""
    assert slug(KEY) == "70b3531da0f3"
    assert machine_name("l4", KEY, 1) == "l4-9762dd86"
    assert len(machine_name("p" * 40, KEY, 1)) <= 63


def test_only_gpus_that_are_attached_are_part_of_a_place() -> None:
    assert place(Offer("us-central1-a", "g2-standard-8", "spot", "nvidia-l4")) == "us-central1-a g2-standard-8 spot"
    t4 = Offer("us-central1-a", "n1-standard-8", "spot", "nvidia-tesla-t4")
    assert place(t4) == "us-central1-a n1-standard-8 spot nvidia-tesla-t4"
