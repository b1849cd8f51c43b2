"""Components are found by reading sources; none may be missed for the folder it is in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpu_ci.kinds import clusters_below, components_below, image_component_for, image_kind_names, kinds
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


def test_every_kind_of_pipeline_answers_the_questions_of_the_program() -> None:
    pipelines = {kind: image_component_for(kind) for kind in image_kind_names()}
    assert [kind for kind, component in pipelines.items() if not issubclass(component.ARGS, EntryArgs)] == []
