"""Components are found by reading sources; none may be missed for the folder it is in."""

from __future__ import annotations

from pathlib import Path

from gpu_ci.kinds import clusters_below, components_below, image_component_for, image_kind_names, kinds
from gpu_ci.pool_args import EntryArgs, PoolArgs

SOURCE = """
class RunnerPool(Component):
    TYPE: ClassVar[str] = "gpu-ci:gcp:RunnerPool"
    KIND: ClassVar[str] = "gce-runners"
"""


def test_components_are_found_at_any_depth(tmp_path: Path) -> None:
    for folder in ("gcp", "gcp/pool"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "runner_pool.py").write_text(SOURCE)
    found = components_below(tmp_path, "gpu_ci")
    assert {each.module for each in found} == {"gpu_ci.gcp.runner_pool", "gpu_ci.gcp.pool.runner_pool"}
    assert {(each.token, each.kind, each.name) for each in found} == {
        ("gpu-ci:gcp:RunnerPool", "gce-runners", "RunnerPool")
    }


def test_clusters_are_found_by_their_kind_and_pools_by_the_kind_of_cluster_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "eks_cluster.py").write_text('class EksCluster(Cluster):\n    CLUSTER_KIND: ClassVar[str] = "eks"\n')
    (tmp_path / "pool.py").write_text(SOURCE + '    ON_CLUSTER: ClassVar[str] = "eks"\n')
    assert clusters_below(tmp_path, "gpu_ci") == {"eks": ("gpu_ci.eks_cluster", "EksCluster")}
    [component] = components_below(tmp_path, "gpu_ci")
    assert (component.on_cluster, component.extras) == ("eks", {"gcp", "kubernetes"})


def test_every_kind_answers_the_questions_of_the_program() -> None:
    assert [kind for kind, component in kinds().items() if not issubclass(component.ARGS, PoolArgs)] == []
    pipelines = {kind: image_component_for(kind) for kind in image_kind_names()}
    assert [kind for kind, component in pipelines.items() if not issubclass(component.ARGS, EntryArgs)] == []


def test_runners_have_labels_exactly_in_kinds_that_register_runners() -> None:
    registering = set()
    for kind, component in kinds().items():
        region = "us-east-1" if ":aws:" in component.TYPE else "us-central1"
        wiring = component.ARGS.placeholder_wiring(region, component.EXAMPLE)
        args = component.ARGS(**component.EXAMPLE, **wiring)
        assert isinstance(args, PoolArgs)
        assert bool(args.runner_labels_of("l4")) == bool(args.REGISTERED_BY), kind
        assert args.demand("l4") or args.metered("l4"), kind
        registering |= {kind} if args.REGISTERED_BY else set()
    assert registering
