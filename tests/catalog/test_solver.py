"""The solver's own rules: their texts, the unknowns, and that a setup works after a fix."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from gpu_catalog import queries, solver
from gpu_catalog.errors import UnknownName
from gpu_catalog.setup import driver_source, driver_sources_for
from gpu_catalog.solver import Refused, Setup, Works, check, findings


def refused(machine: str, **choices: Any) -> Refused:
    verdict = check(machine, **choices)
    assert isinstance(verdict, Refused)
    return verdict


@pytest.mark.parametrize(
    ("machine", "choices", "rule"),
    [
        ("g2-standard-8", {"ami_type": "AL2023_x86_64_NVIDIA"}, "ami.cloud"),
        ("g5.xlarge", {"ami_type": "AL2024_x86_64_NVIDIA"}, "ami.unknown"),
        ("g5.xlarge", {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA", "driver_source": "al2023"}, "source.ami"),
        ("g5.xlarge", {"ami_type": "AL2023_x86_64_NVIDIA", "driver_source": "bottlerocket"}, "source.ami"),
        ("g5.xlarge", {"driver_source": "installer"}, "source.cloud"),
        ("g4-standard-6", {"driver_source": "operator"}, "driver.fraction"),
        ("g4-standard-6", {"driver_source": "installer"}, "driver.fraction"),
        ("g6f.large", {"driver_source": "operator", "driver_branch": 580}, "driver.fraction"),
        ("g5.xlarge", {"torch": "2.9.1", "python": (3, 9)}, "torch.python"),
        ("g5.xlarge", {"torch": "2.9.1+cu111"}, "torch.no-build"),
    ],
)
def test_a_rule_that_no_issue_is_about_refuses_and_its_fix_is_accepted(
    machine: str, choices: dict[str, Any], rule: str
) -> None:
    verdict = refused(machine, **choices)
    assert [problem.rule for problem in verdict.problems] == [rule]
    assert verdict.fix
    assert solver.check_setup(verdict.setup.changed(verdict.fix)).works


def test_every_problem_is_named_and_a_fix_puts_all_of_them_right() -> None:
    verdict = refused("g2-standard-8", boot_disk="pd-standard", zone="us-central1-f", market="reservation")
    assert [problem.choice for problem in verdict.problems] == ["market", "zone", "boot_disk"]
    for problem in verdict.problems:
        assert problem.fix
        assert next(iter(problem.fix)) == problem.choice
        assert solver.check_setup(verdict.setup.changed(problem.fix)).works


def test_the_fix_of_a_refusal_is_the_one_that_changes_the_least() -> None:
    verdict = refused("g7.2xlarge", driver_source="operator", ami_type="BOTTLEROCKET_x86_64_NVIDIA")
    shorter = {"ami_type": "AL2023_x86_64_NVIDIA", "driver_source": "al2023"}
    assert [problem.fix for problem in verdict.problems] == [shorter, {**shorter, "driver_branch": 595}]
    assert verdict.fix == shorter


def test_a_refused_machine_is_printed_with_reason_source_and_hint() -> None:
    [problem] = refused("a3-highgpu-1g", market="standard").problems
    assert problem.text == "gcp/a3-highgpu-1g is not sold as standard: only as spot, flex-start"
    assert problem.hint == "market=spot"
    assert "2026-04-13" in problem.source


def test_an_older_torch_is_named_before_another_driver_where_it_runs_on_the_one_that_was_chosen() -> None:
    [problem] = refused("g6.xlarge", driver_branch=550, torch="2.9.1+cu130").problems
    assert (problem.choice, problem.fix) == ("driver_branch", {"torch": "2.9.1+cu128"})


def test_another_machine_is_named_where_nothing_else_helps() -> None:
    [problem] = refused("g4ad.xlarge").problems
    assert problem.hint == "machine=aws/g4dn.xlarge"


def test_unknown_choices_are_listed_and_not_refused() -> None:
    verdict = check("n1-standard-8+nvidia-tesla-t4x1", market="flex-start", driver_source="cos", torch="2.99.0")
    assert isinstance(verdict, Works)
    assert verdict.unknown == (
        "no source confirms that gcp/n1-standard-8+nvidia-tesla-t4x1 is sold as flex-start",
        "the driver branch of cos is unknown",
        "torch 2.99 for x86_64 is not in the tables",
    )


def test_a_choice_without_a_vendors_source_is_unknown_and_not_refused() -> None:
    verdict = check("g4-standard-48", nic="VIRTIO_NET")
    assert isinstance(verdict, Works)
    assert verdict.unknown == ("no source says if gcp/g4-standard-48 supports VIRTIO_NET",)
    sold = check("p6e-gb200.36xlarge", market="spot")
    assert sold.works
    assert sold.unknown == ("no source confirms that aws/p6e-gb200.36xlarge is sold as spot",)


def test_a_driver_branch_below_a_gpus_first_is_refused_where_a_vendor_says_which_that_is() -> None:
    assert check("g6e.xlarge", driver_branch=525).unknown == (
        "support of driver branch 525 for the L40S: its first branch is probably 535, without a source",
    )
    assert check("g6e.xlarge", driver_branch=535).unknown == ()
    assert [problem.rule for problem in refused("g6.xlarge", driver_branch=470).problems] == ["driver.before-gpu"]
    assert [problem.rule for problem in refused("a4-highgpu-8g", driver_branch=550).problems] == ["driver.before-gpu"]
    assert check("g2-standard-8", driver_branch=581).unknown == ("driver branch 581 is not in the table of drivers",)


@pytest.mark.parametrize(
    ("machine", "choices", "text", "fix"),
    [
        ("g2-standard-8", {"nic": "GVNICC"}, "gcp has no network interface GVNICC; did you mean GVNIC?", "GVNIC"),
        (
            "a4-highgpu-8g",
            {"nic": "efa"},
            "efa is a network interface of aws, but gcp/a4-highgpu-8g is on gcp",
            "GVNIC",
        ),
        ("g6.xlarge", {"nic": "gvnic"}, "GVNIC is a network interface of gcp, but aws/g6.xlarge is on aws", "ena"),
        ("g6.xlarge", {"boot_disk": "pd-ssd"}, "pd-ssd is a boot disk of gcp, but aws/g6.xlarge is on aws", "gp3"),
        ("g6.xlarge", {"boot_disk": "gp33"}, "aws has no boot disk gp33; did you mean gp3?", "gp3"),
        ("a4-highgpu-8g", {"boot_disk": "floppy"}, "gcp has no boot disk floppy", "hyperdisk-balanced"),
    ],
)  # fmt: skip
def test_a_device_of_another_cloud_or_of_none_is_refused(machine: str, choices: Any, text: str, fix: str) -> None:
    [problem] = refused(machine, **choices).problems
    [part] = choices
    assert (problem.choice, problem.text, problem.fix) == (part, text, {part: fix})


def test_a_device_that_the_cloud_has_is_unknown_where_no_source_says_that_the_machine_takes_it() -> None:
    verdict = check("g6.xlarge", boot_disk="gp3", nic="ENA")
    assert (verdict.works, verdict.setup.nic) == (True, "ena")
    assert verdict.unknown == (
        "no source says if aws/g6.xlarge supports gp3",
        "no source says if aws/g6.xlarge supports ena",
    )


def test_a_location_is_unknown_and_not_refused_where_no_source_names_a_region_of_the_machine() -> None:
    verdict = check("p6e-gb200.36xlarge", zone="us-east-1")
    assert verdict.works
    assert verdict.unknown == ("no source names a region of aws/p6e-gb200.36xlarge",)


def test_a_boot_disk_that_is_refused_is_answered_with_pd_balanced_where_the_machine_takes_it() -> None:
    [problem] = refused("a3-highgpu-1g", boot_disk="pd-standard").problems
    assert queries.machine("a3-highgpu-1g").boot_disks[0] == "hyperdisk-balanced"
    assert problem.fix == {"boot_disk": "pd-balanced"}


def test_an_ami_of_ones_own_may_have_a_driver_and_one_without_is_refused() -> None:
    assert check("g6.xlarge", ami_type="CUSTOM").works
    [problem] = refused("g6.xlarge", ami_type="AL2023_x86_64_STANDARD").problems
    assert (problem.rule, problem.text) == ("ami.no-driver", "AL2023_x86_64_STANDARD has no NVIDIA driver")


def test_a_region_counts_as_a_zone_that_is_not_chosen_yet() -> None:
    assert check("g2-standard-8", zone="us-central1").works
    assert not check("g2-standard-8", zone="southamerica-west1").works


def test_an_ami_is_only_changed_where_one_was_chosen() -> None:
    for problem in refused("g7.2xlarge", driver_source="bottlerocket").problems:
        assert problem.fix == {"driver_source": "al2023", "driver_branch": 595}


def test_a_fraction_of_a_gpu_has_a_kernel_module_of_its_own() -> None:
    assert not check("g4-standard-48", kernel_module="proprietary").works
    assert check("g4-standard-24", kernel_module="proprietary").works


def test_a_market_may_be_called_what_the_cloud_calls_it() -> None:
    assert check("g5.xlarge", market="ON_DEMAND").setup.market == "standard"


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"market": "rented"}, "unknown market 'rented'"),
        ({"driver_source": "bottlerockt"}, "unknown driver source 'bottlerockt'; did you mean bottlerocket?"),
    ],
)
def test_a_choice_that_does_not_exist_is_no_verdict_but_a_mistake(choices: dict[str, Any], text: str) -> None:
    with pytest.raises(UnknownName) as caught:
        check("g5.xlarge", **choices)
    assert str(caught.value) == text


@pytest.mark.parametrize("name", solver.DRIVER_SOURCES)
def test_a_driver_source_is_described_and_its_default_is_one_of_its_branches(name: str) -> None:
    source = driver_source(name)
    assert source.clouds
    assert source.branches is None or {source.default, *source.defaults.values()} <= {*source.branches}
    assert any(source in driver_sources_for(machine) for machine in queries.machines(n1=False))


def test_every_machine_has_a_way_to_a_driver_and_a_current_torch() -> None:
    # No source says which driver the images of Jarvis Labs have.
    for machine in (each for each in queries.machines(n1=False) if each.cloud != "jarvislabs"):
        torch = {"x86_64": "2.14.0+cu126", "arm64": "2.13.0+cu130"}[machine.architecture]
        torch = "2.13.0+cu130" if machine.gpu.capability >= (10, 0) else torch
        ways = [source.name for source in driver_sources_for(machine) if not _wrong(machine, source.name, torch)]
        assert ways or machine.family == "g5g", machine.key  # no wheel has kernels for a T4G


def _wrong(machine: Any, source: Any, torch: str) -> list[str]:
    branches = driver_source(source).branches or (580,)
    found = [[f.rule for f in findings(_setup(machine, source, branch, torch))] for branch in branches]
    return min(found, key=len)


def _setup(machine: Any, source: Any, branch: int, torch: str) -> Setup:
    return Setup(machine=machine, driver_source=source, driver_branch=branch, torch=torch)


def test_a_fix_is_accepted_wherever_one_is_named() -> None:
    machines = ("n1-standard-8+nvidia-tesla-v100x1", "g2-standard-8", "g4-standard-6", "a4x-highgpu-4g", "g5.xlarge")
    # Of each torch and each disk, one after the other: what is wrong with a disk has nothing to do with torch.
    pairs = (("2.6.0", "pd-standard"), ("2.9.1", "hyperdisk-balanced"), ("2.15.0", "pd-standard"))
    without = set()
    for machine, source, (torch, disk) in itertools.product(machines, solver.DRIVER_SOURCES, pairs):
        verdict = check(machine, driver_source=source, torch=torch, boot_disk=disk)
        if not verdict.works:
            assert isinstance(verdict, Refused)
            for problem in verdict.problems:
                if not problem.fix:
                    without.add((machine, source, torch, disk, problem.rule))
                else:
                    assert solver.check_setup(verdict.setup.changed(problem.fix)).works
    assert without == set()
