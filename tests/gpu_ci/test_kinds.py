"""Components are found by reading sources; none may be missed for the folder it is in."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.main import run
from gpu_ci.errors import ArgsError, Problem
from gpu_ci.kinds import (
    ComponentInfo,
    catalog,
    clusters_below,
    components_below,
    image_component_for,
    image_kind_names,
    kinds,
)
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


def catalog_with(monkeypatch: pytest.MonkeyPatch, *values: str) -> tuple[ComponentInfo, ...]:
    """The components if other packages have entry points with these values."""
    found = [importlib.metadata.EntryPoint("acme", value, "gpu_ci.kinds") for value in values]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)
    return catalog.__wrapped__()


@pytest.mark.parametrize("value", ["acme_kinds", "acme_kinds.gpus", "importlib", "acme_kinds:Pool", "json.decoder"])
def test_an_entry_point_without_a_package_of_components_is_an_error(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgsError, match=r"gpu-ci: acme: the entry point names no package with components\n  got: .*\n"):
        catalog_with(monkeypatch, value)


def test_two_packages_cannot_have_one_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for package, kind in {"acme_a": "acme-a", "acme_b": "gce-runners"}.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "pool.py").write_text(SOURCE.replace("gce-runners", kind))
    assert "acme-a" in {each.kind for each in catalog_with(monkeypatch, "acme_a")}
    with pytest.raises(ArgsError, match=r"two components have it\n  got: gpu_ci\.gcp\.runner_pool, acme_b\.pool"):
        catalog_with(monkeypatch, "acme_b")


def test_a_wrong_entry_point_ends_a_command_with_the_text_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise ArgsError("gpu-ci", [Problem("acme", "the entry point names no package")])

    monkeypatch.setattr(gpu_ci, "main", fail)
    assert run(["check"]) == 2
    assert capsys.readouterr().err == "gpu-ci: acme: the entry point names no package\n"


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
