"""The identity of nodes, and the names AWS's partitions have for what it is made of."""

from __future__ import annotations

from tests.gpu_ci.aws.node_groups import EFA, group


def test_everything_is_in_the_clusters_region_despite_another_region_of_the_provider() -> None:
    rows = [row for row in group(**EFA).rows if row.type.startswith("aws:") and ":iam/" not in row.type]
    assert [row.name for row in rows if row.inputs.get("region") != "us-east-1"] == []
    assert len(rows) == 16
