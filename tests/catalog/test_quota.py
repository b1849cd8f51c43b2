"""The quotas that pools need, and the findings about limits that are too small."""

from __future__ import annotations

from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog import quota
from gpu_catalog.limits import Limit
from gpu_catalog.models import Demand

HERE = "us-central1"


def demand(machine: str = "g2-standard-8", market: str = "spot", most: int = 4, **changes: Any) -> Demand:
    given: dict[str, Any] = {
        "pool": "l4",
        "machine": catalog.machine(machine),
        "market": catalog.market(market),
        "region": HERE,
        "max_machines": most,
    }
    return Demand(**(given | changes))


def amounts(*demands: Demand) -> dict[tuple[str, str], float]:
    return {key: need.amount for key, need in quota.needs(demands).items()}


def limits(**values: float) -> dict[tuple[str, str], Limit]:
    return {("global" if name == "GPUS_ALL_REGIONS" else HERE, name): Limit(value) for name, value in values.items()}


def test_gpus_are_counted_in_the_region_and_in_all_regions_with_one_machine_more_for_a_check() -> None:
    assert amounts(demand(machines_of_a_check=1)) == {
        ("global", "GPUS_ALL_REGIONS"): 5,
        (HERE, "PREEMPTIBLE_NVIDIA_L4_GPUS"): 5,
    }


def test_a_machine_of_several_gpus_takes_that_many_of_each_quota() -> None:
    assert amounts(demand("g2-standard-96", "standard", 2)) == {
        ("global", "GPUS_ALL_REGIONS"): 16,
        (HERE, "NVIDIA_L4_GPUS"): 16,
    }


def test_a_fraction_of_a_gpu_counts_as_one() -> None:
    assert amounts(demand("g4-standard-6", "spot", 3))[HERE, "PREEMPTIBLE_NVIDIA_RTX_PRO_6000_GPUS"] == 3


def test_pools_of_one_region_share_a_quota_and_those_of_two_share_the_one_of_all() -> None:
    found = quota.needs([demand(), demand(pool="b", most=2), demand(pool="c", most=1, region="us-east4")])
    assert {key: need.amount for key, need in found.items()} == {
        ("global", "GPUS_ALL_REGIONS"): 7,
        (HERE, "PREEMPTIBLE_NVIDIA_L4_GPUS"): 6,
        ("us-east4", "PREEMPTIBLE_NVIDIA_L4_GPUS"): 1,
    }
    assert found["global", "GPUS_ALL_REGIONS"].amount_text == "7 GPUs or more (l4 4, b 2, c 1)"


def test_newer_gpus_have_a_quota_by_family_where_they_are_not_preemptible() -> None:
    found = quota.needs([demand("a3-highgpu-8g", "standard", 1)])
    need = found[HERE, "GPUS_PER_GPU_FAMILY{gpu_family=NVIDIA_H100}"]
    assert (need.amount, need.quota_id, need.gpu_family) == (8, "GPUS-PER-GPU-FAMILY-per-project-region", "NVIDIA_H100")
    assert "filter GPUS-PER-GPU-FAMILY-per-project-region of us-central1, gpu_family NVIDIA_H100" in (
        quota.console_path(need)
    )


def test_flex_start_draws_on_the_preemptible_quota() -> None:
    assert (HERE, "PREEMPTIBLE_NVIDIA_H100_GPUS") in amounts(demand("a3-highgpu-1g", "flex-start", 1))


@pytest.mark.parametrize(
    ("disk", "metric"),
    [
        ("pd-balanced", "SSD_TOTAL_GB"),
        ("pd-ssd", "SSD_TOTAL_GB"),
        ("pd-standard", "DISKS_TOTAL_GB"),
        ("hyperdisk-balanced", "HDB_TOTAL_GB"),
    ],
)
def test_boot_disks_have_a_quota_of_their_own(disk: str, metric: str) -> None:
    found = amounts(demand(boot_disk=disk, boot_disk_gib=200, machines_of_a_check=1))
    assert found[HERE, metric] == 1000


def test_stopped_machines_are_assumed_to_take_quota_for_their_boot_disks_alone() -> None:
    """Not verified: docs/status.md."""
    stopped = demand(boot_disk="pd-balanced", boot_disk_gib=200, stopped_machines=2)
    running = demand(boot_disk="pd-balanced", boot_disk_gib=200)
    more, less = amounts(stopped), amounts(running)
    assert more == {**less, (HERE, "SSD_TOTAL_GB"): less[HERE, "SSD_TOTAL_GB"] + 400}


def test_bundled_local_disks_count_and_are_marked_as_not_certain() -> None:
    need = quota.needs([demand("a3-highgpu-1g", "spot", 2)])[HERE, "PREEMPTIBLE_LOCAL_SSD_GB"]
    assert (need.amount, need.certain) == (1500, False)
    without = amounts(demand("a3-highgpu-1g-nolssd", "spot", 2))
    assert (HERE, "PREEMPTIBLE_LOCAL_SSD_GB") not in without


def test_aws_counts_vcpus() -> None:
    found = quota.needs([demand("g6.12xlarge", "spot", 2, region="us-east-1")])
    [((region, code), need)] = found.items()
    assert (region, code, need.amount, need.amount_text) == ("us-east-1", "L-3819A6DF", 96, "96 vCPUs or more (l4 96)")
    assert quota.console_path(need) == (
        'Service Quotas > Amazon EC2 > L-3819A6DF "All G and VT Spot Instance Requests", in us-east-1'
    )
    assert quota.console_link(need) == (
        "https://us-east-1.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-3819A6DF"
    )


def test_a_partition_with_a_console_of_its_own_gets_the_path_without_a_link() -> None:
    [finding] = quota.compare(quota.needs([demand("g4dn.xlarge", "standard", 1, region="us-gov-west-1")]), {})
    assert finding.hint() == (
        'Service Quotas > Amazon EC2 > L-DB2E81BA "Running On-Demand G and VT instances", in us-gov-west-1'
    )


def test_enough_is_no_finding() -> None:
    needed = quota.needs([demand()])
    assert quota.compare(needed, limits(PREEMPTIBLE_NVIDIA_L4_GPUS=4, GPUS_ALL_REGIONS=4)) == ()


def test_a_shortage_names_metric_region_both_numbers_and_where_to_ask() -> None:
    given = limits(PREEMPTIBLE_NVIDIA_L4_GPUS=4, GPUS_ALL_REGIONS=9)
    [found] = quota.compare(quota.needs([demand(machines_of_a_check=1)]), given)
    assert (found.need.region, found.need.metric) == (HERE, "PREEMPTIBLE_NVIDIA_L4_GPUS")
    assert (found.text, found.got, found.expected) == ("is less than the pools need", "4", "5 GPUs or more (l4 5)")
    assert found.hint("acme-ci") == (
        "IAM & Admin > Quotas & System Limits, filter PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region of us-central1: "
        "https://console.cloud.google.com/iam-admin/quotas?project=acme-ci"
    )
    assert found.to_json()["given"] == 4


def test_the_current_usage_is_reported_and_not_added() -> None:
    given = {(HERE, "PREEMPTIBLE_NVIDIA_L4_GPUS"): Limit(4, 3), ("global", "GPUS_ALL_REGIONS"): Limit(4, 4)}
    assert quota.compare(quota.needs([demand()]), given) == ()
    [short] = quota.compare(
        quota.needs([demand(most=4, machines_of_a_check=1)]), {**given, **limits(GPUS_ALL_REGIONS=9)}
    )
    assert short.got == "4, 3 of it in use now"


def test_a_limit_that_is_missing_is_unknown_rather_than_short() -> None:
    found = quota.compare(quota.needs([demand()]), limits(PREEMPTIBLE_NVIDIA_L4_GPUS=4))
    assert [(each.need.metric, each.text, each.is_short, each.got) for each in found] == [
        ("GPUS_ALL_REGIONS", "is unknown", False, "")
    ]
    assert found[0].to_json()["given"] is None


def test_spot_draws_on_the_standard_quota_where_no_preemptible_one_was_granted() -> None:
    """The amount is added to that of the machines that are not spot."""
    needed = quota.needs([demand(), demand(market="standard", pool="release", most=1)])
    plenty = limits(PREEMPTIBLE_NVIDIA_L4_GPUS=0, NVIDIA_L4_GPUS=5, GPUS_ALL_REGIONS=9)
    assert quota.compare(needed, plenty) == ()
    [short] = quota.compare(needed, plenty | limits(NVIDIA_L4_GPUS=4))
    assert (short.need.metric, short.expected) == ("NVIDIA_L4_GPUS", "5 GPUs or more (release 1, l4 4)")


def test_a_preemptible_quota_of_nothing_alone_is_short_and_names_the_other() -> None:
    [short] = quota.compare(quota.needs([demand()]), limits(PREEMPTIBLE_NVIDIA_L4_GPUS=0, GPUS_ALL_REGIONS=9))
    assert short.hint().endswith(
        "; without a granted limit, spot machines use NVIDIA_L4_GPUS: give the limit of NVIDIA_L4_GPUS, too"
    )


def test_a_granted_preemptible_quota_is_the_only_one_that_counts_for_spot() -> None:
    given = limits(PREEMPTIBLE_NVIDIA_L4_GPUS=1, NVIDIA_L4_GPUS=99, GPUS_ALL_REGIONS=99)
    [short] = quota.compare(quota.needs([demand()]), given)
    assert short.need.metric == "PREEMPTIBLE_NVIDIA_L4_GPUS"


def test_machines_that_are_deleted_within_a_week_may_draw_on_what_preemptible_quota_is_left() -> None:
    given = limits(NVIDIA_L4_GPUS=1, PREEMPTIBLE_NVIDIA_L4_GPUS=3, GPUS_ALL_REGIONS=99)
    short_lived = demand(market="standard", max_run_sec=14400)
    assert quota.compare(quota.needs([short_lived]), given) == ()
    spot = demand(pool="spot", most=1)
    assert [each.need.metric for each in quota.compare(quota.needs([short_lived, spot]), given)] == ["NVIDIA_L4_GPUS"]
    for long_lived in (demand(market="standard"), demand(market="standard", max_run_sec=8 * 86400)):
        assert len(quota.compare(quota.needs([long_lived]), given)) == 1


def test_the_short_lived_machines_of_all_pools_together_may_draw_on_preemptible_quota() -> None:
    pools = [demand(market="standard", pool=pool, most=2, max_run_sec=14400) for pool in ("a", "b")]
    needed = quota.needs(pools)
    assert (needed[HERE, "NVIDIA_L4_GPUS"].amount, needed[HERE, "NVIDIA_L4_GPUS"].movable) == (4, 4)
    given = limits(NVIDIA_L4_GPUS=1, PREEMPTIBLE_NVIDIA_L4_GPUS=3, GPUS_ALL_REGIONS=99)
    assert quota.compare(needed, given) == ()


def test_a_need_is_certain_only_where_it_is_for_every_pool_in_it() -> None:
    pools = [demand(machine, "spot", 1, region="us-east-1") for machine in ("p4d.24xlarge", "p6-b200.48xlarge")]
    assert [each.certain for pool in pools for each in quota.needs([pool]).values()] == [True, False]
    for order in (pools, pools[::-1]):
        [need] = quota.needs(order).values()
        assert (need.metric, need.amount, need.certain) == ("L-7212CCBC", 288, False)


def test_if_sources_name_two_quotas_with_limits_the_larger_limit_counts() -> None:
    needed = quota.needs([demand("p6-b200.48xlarge", "spot", 1, region="us-east-1")])
    given = {("us-east-1", "L-7212CCBC"): Limit(64), ("us-east-1", "L-C4BD4855"): Limit(192)}
    assert quota.compare(needed, given) == ()
    [short] = quota.compare(needed, given | {("us-east-1", "L-C4BD4855"): Limit(128)})
    assert short.got == "128"


def test_where_sources_disagree_about_about_the_code_either_will_do_and_a_shortage_is_not_certain() -> None:
    needed = quota.needs([demand("p6-b200.48xlarge", "spot", 1, region="us-east-1")])
    [need] = needed.values()
    codes = (need.metric, *need.alternatives)
    assert sorted(codes) == ["L-7212CCBC", "L-C4BD4855"]
    for code in codes:
        assert quota.compare(needed, {("us-east-1", code): Limit(192)}) == ()
    [one] = quota.compare(needed, {("us-east-1", need.metric): Limit(64)})
    assert not one.certain
    assert f"other sources name {need.alternatives[0]} instead" in one.hint()
