"""Imports point one way (docs/ and CONTRIBUTING.md tell why); this holds them to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = (
    "infra",
    "gpu_agent",
    "gpu_catalog",
    "gpu_ci",
    "gpu_ci_policies",
    "gpu_preview",
    "gpu_smoke",
    "pytest_gpu_ci",
    "pulumi_sandbox",
    "tests",
    "bench",
)

# Folder, and which of our packages it may import; torch is the check's alone.
LAYERS = {
    "infra": {"infra", "gpu_ci"},
    "agent": {"gpu_agent"},
    "catalog": {"gpu_catalog", "gpu_smoke"},
    "components": {"gpu_ci", "gpu_catalog"},
    "policies": {"gpu_ci_policies", "gpu_catalog"},
    "preview": {"gpu_preview", "gpu_ci", "gpu_catalog"},
    "smoke": {"gpu_smoke", "pytest_gpu_ci", "torch"},
    "sandbox": {"pulumi_sandbox", "gpu_catalog"},
}

# The clouds a folder of gpu_ci may import from; the two that run anywhere import neither cloud, and what makes nodes of
# a cluster asks kubernetes/ how pods find them.
CLOUDS = {"gcp": {"gcp"}, "aws": {"aws", "kubernetes"}, "kubernetes": {"kubernetes"}, "github": {"github"}}

# Only the plugin's side and the command talk to anybody, read the environment or the clock; components are pure.
PLUGIN_SIDE = {
    "components/gpu_ci/plugin.py",
    "components/gpu_ci/gcp/gate/compute_api.py",
    "components/gpu_ci/gcp/gate/runner.py",
    "components/gpu_ci/gcp/gate/service.py",
}
IMPURE = {
    "os",
    "time",
    "datetime",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "urllib",
    "http",
    "googleapiclient",
    "requests",
}


def imports(source: str, package: str) -> Iterator[str]:
    """Every module a source imports, relative ones resolved against its package, wherever in the file they stand."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def misplaced(folder: str, source: str, package: str) -> list[str]:
    """The imports a file of this folder may not have."""
    allowed = LAYERS[folder]
    tops = sorted({name.split(".")[0] for name in imports(source, package)})
    return [top for top in tops if top in (*OURS, "torch") and top not in allowed]


def sources(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def package_of(path: Path, folder: str) -> str:
    parts = path.relative_to(ROOT / folder).parent.parts
    return ".".join(parts if folder != "infra" else ("infra", *parts))


@pytest.mark.parametrize("folder", LAYERS)
def test_imports_point_one_way(folder: str) -> None:
    assert sources(folder), f"{folder} has no Python files"
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in sources(folder)
        if (wrong := misplaced(folder, path.read_text(), package_of(path, folder)))
    }
    assert found == {}


def of_other_clouds(package: str, source: str) -> list[str]:
    """What a module of this package may not import, as another cloud's. Empty outside the clouds' folders."""
    cloud = next(iter(package.split(".")[1:]), "")
    if cloud not in CLOUDS:
        return []
    others = {f"gpu_ci.{other}" for other in CLOUDS if other not in CLOUDS[cloud]}
    sdks = {f"pulumi_{other}" for other in CLOUDS if other != cloud}
    names = set(imports(source, package))
    return sorted(name for name in names if name.startswith(tuple(others)) or name.split(".")[0] in sdks)


def test_no_cloud_imports_another() -> None:
    found = {
        str(path): wrong
        for path in sources("components")
        if (wrong := of_other_clouds(package_of(path, "components"), path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize("package", ["gpu_ci.gcp", "gpu_ci.gcp.pool"])
def test_an_import_of_another_cloud_is_seen_at_any_depth(package: str) -> None:
    assert of_other_clouds(package, "import pulumi_aws\nimport pulumi_gcp") == ["pulumi_aws"]


def test_components_are_pure() -> None:
    found = {}
    for path in sources("components"):
        name = str(path.relative_to(ROOT))
        tops = {module.split(".")[0] for module in imports(path.read_text(), package_of(path, "components"))}
        if name not in PLUGIN_SIDE and "cli" not in path.parts and (wrong := sorted(tops & IMPURE)):
            found[name] = wrong
    assert found == {}


def test_components_read_no_configuration_of_a_stack() -> None:
    found = [str(path) for path in sources("components") if "pulumi.Config" in path.read_text()]
    assert found == []


@pytest.mark.parametrize(
    ("folder", "source", "wrong"),
    [
        ("components", "import infra.settings", ["infra"]),
        ("components", "def f():\n    from infra import settings", ["infra"]),
        ("components", "import torch", ["torch"]),
        ("components", "from gpu_ci import args", []),
        ("smoke", "import gpu_ci", ["gpu_ci"]),
        ("smoke", "import torch", []),
        ("sandbox", "from gpu_ci.args import Args", ["gpu_ci"]),
        ("infra", "import gpu_smoke, torch", ["gpu_smoke", "torch"]),
        ("infra", "from infra.settings import x\nimport gpu_ci", []),
    ],
)
def test_a_misplaced_import_is_seen(folder: str, source: str, wrong: list[str]) -> None:
    assert misplaced(folder, source, "x") == wrong


def test_a_relative_import_is_resolved() -> None:
    found = set(imports("from ..aws import nodes\nfrom . import rules", "gpu_ci.gcp"))
    assert found == {"gpu_ci.aws", "gpu_ci.aws.nodes", "gpu_ci.gcp", "gpu_ci.gcp.rules"}
