"""The data of the pinned packages, and the errors for data in an unknown form."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from gpu_catalog import upstream
from gpu_catalog.upstream import UpstreamError, botocore, cfn_lint, gpuhunt, moto

import tests

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = {"botocore", "cfn-lint", "gpuhunt", "moto"}


def test_the_compared_packages_are_the_pinned_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["dependency-groups"]["dev"], *project["project"]["optional-dependencies"]["sandbox"]]
    pinned = dict(each.split("==") for each in wanted if "==" in each)
    del pinned["kubernetes-validate"]  # the sandbox's alone
    assert pinned == {name: upstream.version(name) for name in SOURCES}


def test_the_sizes_of_the_sources() -> None:
    assert len(botocore.instance_types()) == 1437
    assert len(botocore.ami_types()) == 23
    assert (len(cfn_lint.table()), len(cfn_lint.offered()), cfn_lint.as_of()) == (38, 1431, "2026-10-20")
    assert (len(moto.instance_types()), len(moto.offerings())) == (65, 30)
    assert len(gpuhunt.gpus()) == 68


def test_the_newest_model_of_a_service_is_read() -> None:
    assert {words.service: words.api_version for words in botocore.enums().values()} == {
        "ec2": "2016-11-15",
        "eks": "2017-11-01",
    }


def test_an_instance_type_in_ec2s_words() -> None:
    assert moto.instance_types()["p5.48xlarge"] == moto.InstanceType(
        name="p5.48xlarge",
        manufacturer="NVIDIA",
        gpu_model="H100",
        gpu_count=8,
        gpu_memory_mib=81920,
        vcpus=192,
        memory_mib=2097152,
        architecture="x86_64",
        efa_interfaces=32,
        local_disk_gb=30400,
        usage_classes=("capacity-block", "on-demand", "spot"),
    )


def test_an_eighth_of_a_card_is_an_eighth_although_ec2_counts_none() -> None:
    assert moto.instance_types()["g6f.xlarge"].gpu_count == 0.125


def test_a_type_with_two_kinds_of_gpu_is_refused_and_not_halved() -> None:
    gpu = {"Count": 1, "GpuPartitionSize": 1.0, "Manufacturer": "NVIDIA", "MemoryInfo": {"SizeInMiB": 1}, "Name": "L4"}
    with pytest.raises(UpstreamError, match=r"g9\.odd: GpuInfo\.Gpus: got 2 kinds"):
        moto.parse([{"InstanceType": "g9.odd", "GpuInfo": {"Gpus": [gpu, gpu]}}])


def test_a_region_without_types_is_refused() -> None:
    with pytest.raises(UpstreamError, match=r"eu-west-1: has no instance types"):
        cfn_lint.parse({"all": {"enum": []}, "eu-west-1": {"enum": []}}, Path("table.json"))


def test_both_memory_sizes_of_a_gpu_are_kept() -> None:
    assert {memory for name, memory in gpuhunt.gpus() if name == "V100"} == {16, 32}


def test_gpuhunts_table_under_another_name_is_missed_and_not_empty() -> None:
    with pytest.raises(UpstreamError, match="KNOWN_NVIDIA_GPUS: missing"):
        gpuhunt.parse("GPUS: list = []")


def test_a_missing_package_of_a_source_is_reported_with_a_hint() -> None:
    with pytest.raises(UpstreamError, match=re.escape("no-such: is not installed")) as caught:
        upstream.folder("no_such_package", "no-such")
    assert "hint: make dev" in str(caught.value)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "types.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({"a": 1}).encode()))
    assert upstream.read_json(packed) == {"a": 1}
    packed.write_bytes(b"{}")
    with pytest.raises(UpstreamError, match=r"types\.json\.gz: cannot be read"):
        upstream.read_json(packed)


def test_gpuhunts_own_tests_do_not_replace_ours() -> None:
    # Its wheel puts a package called `tests` into the environment.
    assert Path(tests.__file__).is_relative_to(ROOT / "tests")


def test_only_the_refresh_reads_upstream() -> None:
    # The rest runs where none of these packages is installed.
    found = [
        path.relative_to(ROOT)
        for folder in ("catalog", "common", "components", "infra", "sandbox", "smoke")
        for path in (ROOT / folder).rglob("*.py")
        if "upstream" in path.read_text()
        and re.search(r"(from|import) (gpu_catalog|\.)[\w.]*upstream", path.read_text())
    ]
    assert {path for path in found if path.parent.name != "upstream" and "refresh" not in path.name} == set()
    assert len(found) >= 10


def test_asking_the_catalog_loads_none_of_the_sources() -> None:
    script = (
        "import sys, gpu_catalog; gpu_catalog.machine('g6.xlarge'); print([n for n in sys.modules if 'upstream' in n])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout == "[]\n"
