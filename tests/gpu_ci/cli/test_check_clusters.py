"""`gpu-ci check` of clusters, and of the pools that are on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.program.test_clusters import stack


def written(folder: Path, values: dict[str, Any]) -> str:
    file = folder / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": values}))
    return str(file)


def test_the_cost_of_a_pool_of_several_types_names_the_dearest_and_the_range(ask: Ask, tmp_path: Path) -> None:
    row = ask("cost", written(tmp_path, stack())).out.splitlines()[4]
    assert " ".join(row.split()).startswith(
        "a10g aws/g5.4xlarge (most expensive of 2) spot us-east-1 2 0.5090 to ~0.6496 0.00 1.30 "
    )


def test_a_quota_of_aws_is_shown_with_its_name(ask: Ask, tmp_path: Path) -> None:
    answer = ask("quota", written(tmp_path, stack()))
    assert 'L-3819A6DF "All G and VT Spot Instance Requests"   32 vCPU' in answer.out
