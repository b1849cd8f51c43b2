"""The machine types of the catalog, and the facts about each."""

from __future__ import annotations

import gpu_catalog as catalog
import pytest

EVERY = [*catalog.machines(legacy=True)]


def test_google_has_34_machine_types_and_13_ways_to_attach_gpus_and_aws_has_69() -> None:
    assert len(catalog.machines(cloud="gcp", n1=False)) == 34
    assert len(catalog.attachments()) == 13
    assert len(catalog.machines(cloud="aws")) == 69


def test_retired_and_amd_machines_of_aws_are_known_by_name() -> None:
    legacy = [each.machine_type for each in catalog.machines(legacy=True) if each.legacy]
    assert len(legacy) == 14
    assert {name.split(".")[0] for name in legacy} == {"g2", "g3", "g3s", "g4ad", "p2"}
    assert not set(legacy) & set(catalog.machine_types())


def test_every_machine_has_complete_facts() -> None:
    for machine in EVERY:
        numbers = (machine.gpu_count, machine.vcpus, machine.memory_gib, machine.gpu_memory_gib)
        assert min(numbers) > 0, machine.key
        assert machine.markets, machine.key
        assert set(machine.markets) <= set(catalog.MARKETS), machine.key
        disks = {"pd-balanced", "pd-extreme", "pd-ssd", "pd-standard", "hyperdisk-balanced"}
        assert set(machine.boot_disks) <= disks, machine.key
        assert bool(machine.boot_disks) is (machine.cloud == "gcp"), machine.key
        assert bool(machine.ami_types) is (machine.cloud == "aws" and not machine.legacy), machine.key


def test_a_machine_is_found_by_its_own_key() -> None:
    assert [machine.key for machine in EVERY if catalog.machine(machine.key) != machine] == []


def test_every_fact_has_a_source_with_words() -> None:
    for machine in EVERY:
        for fact in ("vcpus", "memory_gib", "gpu_count", "markets", "architecture", "quota"):
            if fact != "gpu_count" or not machine.attached:
                assert catalog.sources_of(machine, fact), (machine.key, fact)
        assert all(catalog.source(key).what for keys in machine.sources.values() for key in keys), machine.key


def test_memory_fits_the_card() -> None:
    """A cloud may report slightly less than the nominal size, as AWS does for GPUs with error correction."""
    shares = {each.key: each.gpu_memory_gib / catalog.nominal_gpu_memory_gib(each) for each in EVERY}
    assert {key: share for key, share in shares.items() if not 0.88 < share <= 1.03} == {}


def test_disks_and_networks() -> None:
    assert catalog.machine("g2-standard-8").boot_disks == ("pd-balanced", "pd-ssd")
    assert catalog.machine("a4-highgpu-8g").boot_disks == ("hyperdisk-balanced",)
    assert (catalog.machine("a4-highgpu-8g").nic, catalog.machine("a4-highgpu-8g").rdma_nic) == ("GVNIC", "MRDMA")
    assert catalog.machine("a4x-maxgpu-4g-metal").nic == "IDPF"
    assert catalog.machine("g2-standard-8").nic == ""
    assert catalog.machine("a3-ultragpu-8g").gpudirect == "rdma"
    assert catalog.machine("a3-highgpu-1g").gpudirect == ""
    assert [catalog.machine(name).efa_interfaces for name in ("g6.xlarge", "p5.48xlarge", "p5en.48xlarge")] == [
        0,
        32,
        16,
    ]
    assert catalog.machine("a3-highgpu-1g").local_disks == catalog.LocalDisks("bundled", (2,), 750)
    assert catalog.machine("g5g.xlarge").local_disks.mode == "none"
    assert catalog.machine("g4dn.xlarge").local_disks == catalog.LocalDisks("bundled", (), 116.4)


def test_names_made_from_others() -> None:
    bare = catalog.machine("a2-ultragpu-1g-nolssd")
    assert (bare.gpu.key, bare.local_disks.mode) == ("a100-80gb", "none")
    assert catalog.machine("g2-custom-8-49152").memory_gib == 48
    for name in ("g2-standard-8-nolssd", "g2-custom-8-65536", "g2-custom-7-49152"):
        with pytest.raises(catalog.UnknownMachine):
            catalog.machine(name)


def test_questions_narrow_the_list() -> None:
    names = {each.machine_type for each in catalog.machines(gpu="l4", zone="us-central1-a", market="spot")}
    assert names == {f"g2-standard-{size}" for size in (4, 8, 12, 16, 24, 32, 48, 96)}
    assert {each.family for each in catalog.machines(cloud="aws", architecture="arm64")} == {"g5g", "p6e-gb200"}
    assert {each.gpu.key for each in catalog.machines(min_gpu_memory_gib=200)} == {"b300", "gb300"}
    assert {each.gpu.capability for each in catalog.machines(min_compute_capability="10.3")} == {(10, 3), (12, 0)}
    assert {each.family for each in catalog.machines(cloud="aws", region="us-gov-east-1")} >= {"g4dn"}
    assert {each.cloud for each in catalog.machines(gpu="nvidia-tesla-t4")} == {"gcp", "aws"}


def test_a_fact_of_general_knowledge_is_marked() -> None:
    assert "vcpus" in catalog.machine("p3.2xlarge").uncertain
    assert "vcpus" not in catalog.machine("p4d.24xlarge").uncertain
    assert "markets.flex-start" in catalog.machine("g2-standard-8").uncertain
    assert "nics" in catalog.machine("g2-standard-8").uncertain
    assert "nics" not in catalog.machine("a4-highgpu-8g").uncertain
    assert "memory_gib" in catalog.gpu("b300").uncertain
    assert "memory_gib" not in catalog.gpu("gb300").uncertain


def test_rented_machines_are_named_by_their_gpus_and_have_no_quota() -> None:
    machine = catalog.machine("2xA100-80GB", "jarvislabs")
    assert (machine.key, machine.gpu.key, machine.gpu_count, machine.vcpus) == (
        "jarvislabs/2xA100-80GB", "a100-80gb", 2, 32
    )  # fmt: skip
    found = {each.machine_type: each.regions for each in catalog.machines(cloud="jarvislabs", region="EU1")}
    assert found == {"1xH100": ("EU1", "IN1", "IN2"), "1xH200": ("EU1", "IN1", "IN2")}
    for each in catalog.machines(cloud="jarvislabs"):
        one = catalog.price(f"1x{each.family}", "IN2", "standard")
        price = catalog.price(each, "IN2", "standard")
        assert one is not None
        assert price is not None
        assert price.usd_per_hour == pytest.approx(one.usd_per_hour * each.gpu_count)
        assert (price.date, catalog.source(price.sources[0]).certain) == ("2026-09-20", False)
        assert catalog.quota_metrics(each, "standard") == ()
    # A hint names a machine that gpu-ci init can write a pool for.
    found_with_gpu = catalog.machine_with_gpu("h200")
    assert found_with_gpu is not None
    assert found_with_gpu.cloud != "jarvislabs"
