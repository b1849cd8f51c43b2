"""Components are found by reading sources; none may be missed for the folder it is in."""

from __future__ import annotations

import ast
import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.cli.main import run
from gpu_ci.errors import ArgsError, Problem
from gpu_ci.kinds import clusters_below, components_below, image_component_for, image_kind_names, kinds, pool_kinds
from gpu_ci.pool_args import EntryArgs

from tests.conftest import ROOT

SOURCE = """
class HostImagePipeline(ImagePipeline):
    TYPE: ClassVar[str] = "gpu-ci:gcp:HostImagePipeline"
    IMAGE_KIND: ClassVar[str] = "gce-host"
"""

# The files outside of the kinds that name a kind. A program for one kind imports its KIND.
NAME_A_KIND = {"components/gpu_ci/pool_kind.py"}  # the kind in examples and hints


def named_kinds(file: Path) -> Iterator[str]:
    """The kinds that text in the code of a file names. Docstrings and comments do not count."""
    tree = ast.parse(file.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    text = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs]
    for kind in kinds():
        if any(re.search(rf"(?<![\w/-]){kind}(?![\w/-])", value) for value in text if isinstance(value, str)):
            yield kind


def test_no_file_outside_of_the_kinds_names_a_kind() -> None:
    folders = ("bootstrap", "catalog", "common", "components", "manager", "policies", "preview", "tools")
    found = {
        str(file.relative_to(ROOT)): [*named_kinds(file)]
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        if "kinds" not in file.relative_to(ROOT).parts
    }
    assert {file for file, named in found.items() if named} == NAME_A_KIND


def test_components_are_found_at_any_depth(tmp_path: Path) -> None:
    for folder in ("gcp", "gcp/pool"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "host_image.py").write_text(SOURCE)
    found = components_below(tmp_path, "gpu_ci")
    assert {each.module for each in found} == {"gpu_ci.gcp.host_image", "gpu_ci.gcp.pool.host_image"}
    assert {(each.token, each.image_kind, each.name) for each in found} == {
        ("gpu-ci:gcp:HostImagePipeline", "gce-host", "HostImagePipeline")
    }


def test_clusters_are_found_by_their_kind_and_pipelines_by_the_kind_of_cluster_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "eks_cluster.py").write_text('class EksCluster(Cluster):\n    CLUSTER_KIND: ClassVar[str] = "eks"\n')
    (tmp_path / "pipeline.py").write_text(SOURCE + '    ON_CLUSTER: ClassVar[str] = "eks"\n')
    assert clusters_below(tmp_path, "gpu_ci") == {"eks": ("gpu_ci.eks_cluster", "EksCluster")}
    [component] = components_below(tmp_path, "gpu_ci")
    assert (component.on_cluster, component.extras) == ("eks", {"gcp", "kubernetes"})


def kinds_with(monkeypatch: pytest.MonkeyPatch, *values: str) -> list[str]:
    """The kinds if other packages have entry points with these values."""
    found = [importlib.metadata.EntryPoint("acme", value, "gpu_ci.kinds") for value in values]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)
    return list(pool_kinds.__wrapped__())


@pytest.mark.parametrize("value", ["acme_kinds", "acme_kinds:KIND", "json", "json:KIND", "json.decoder:JSONDecoder"])
def test_an_entry_point_without_a_kind_is_an_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgsError, match=r"gpu-ci: acme: the entry point names no kind of pool\n  got: .*\n"):
        kinds_with(monkeypatch, value)


def test_two_packages_cannot_have_one_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for package, kind in {"acme_a": "acme-a", "acme_b": "gce-runners"}.items():
        text = f"from gpu_ci.pool_kind import PoolKind\nKIND = PoolKind({kind!r}, 'acme:gcp:Pool', __name__, {{}})\n"
        (tmp_path / f"{package}.py").write_text(text)
    assert "acme-a" in kinds_with(monkeypatch, "acme_a:KIND")
    with pytest.raises(ArgsError, match=r"two packages have it\n  got: gpu_ci\.kinds\.gce, acme_b"):
        kinds_with(monkeypatch, "acme_b:KIND")


def test_a_wrong_entry_point_ends_a_command_with_the_text_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise ArgsError("gpu-ci", [Problem("acme", "the entry point names no package")])

    monkeypatch.setattr(gpu_ci, "main", fail)
    assert run(["check"]) == 2
    assert capsys.readouterr().err == "gpu-ci: acme: the entry point names no package\n"


def test_every_kind_of_pipeline_answers_the_questions_of_the_program() -> None:
    pipelines = {kind: image_component_for(kind) for kind in image_kind_names()}
    assert [kind for kind, component in pipelines.items() if not issubclass(component.ARGS, EntryArgs)] == []
