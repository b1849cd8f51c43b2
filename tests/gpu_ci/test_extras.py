"""Installs the package with each extra into an empty environment, and imports what the extra is for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import extras
from gpu_ci.kinds import catalog

from tests.conftest import ROOT

UV = ROOT / ".tools" / "bin" / "uv"
SDKS = ("pulumi_aws", "pulumi_gcp", "pulumi_github", "pulumi_kubernetes")
RECEIVED = {
    # extra -> (a statement that needs only this extra, the SDKs that it installs)
    "": ("import gpu_ci.component, gpu_ci.schema; from gpu_ci.stack.site import Site", ()),
    "gcp": (
        "import gpu_ci.program.deploy, gpu_ci.gcp.runner_pool, gpu_ci.gcp.build_pool, gpu_ci.gcp.runner_manager",
        ("pulumi_gcp",),
    ),
    "aws": ("import gpu_ci.aws.gpu_node_group, gpu_ci.aws.limits.eks_api, botocore", ("pulumi_aws",)),
    "kubernetes": ("import gpu_ci.kubernetes.runner_scale_set, gpu_ci.kubernetes.smoke_job", ("pulumi_kubernetes",)),
    "github": ("import gpu_ci.github.runner_group, gpu_ci.stack.github", ("pulumi_github",)),
    "cli": ("from gpu_ci.cli.main import run; assert run(['catalog', '--gpu', 'l4']) == 0", ()),
    "manager": ("import gpu_manager.cli.run_command, httpx2, jwt, googleapiclient", ()),
    "gcp,kubernetes": (
        "import gpu_ci.program.deploy, gpu_ci.program.clusters, gpu_ci.gcp.gke_runner_pool, gpu_ci.gcp.gke_cluster",
        ("pulumi_gcp", "pulumi_kubernetes"),
    ),
    "aws,kubernetes": (
        "import gpu_ci.program.deploy, gpu_ci.program.clusters, gpu_ci.aws.eks_runner_pool",
        ("pulumi_aws", "pulumi_kubernetes"),
    ),
    "all": ("import gpu_ci; gpu_ci.kinds(); import gpu_ci.program.keys, gpu_ci.plugin", SDKS),
}


def requirements_of(extra: str) -> set[str]:
    """The distributions of an extra, in lower case, as pyproject.toml names them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {line.split(">")[0].split("=")[0].split("[")[0].lower() for line in project["optional-dependencies"][extra]}


def test_each_module_is_of_an_extra_that_installs_it() -> None:
    names = {"google.auth": "google-auth", "googleapiclient": "google-api-python-client", "jwt": "pyjwt"}
    wrong = {
        module: extra
        for module, extra in extras.EXTRA_OF.items()
        if names.get(module, module.replace("_", "-")) not in requirements_of(extra)
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("module", "extra"), [("pulumi_gcp", "gcp"), ("pulumi_gcp.compute", "gcp"), ("googleapiclient.errors", "gcp")]
)
def test_the_hint_names_the_extra(module: str, extra: str) -> None:
    assert f"with the extra {extra}:" in extras.hint(module)


@pytest.mark.parametrize(
    ("record", "argument"),
    [
        (None, f"'gpu-ci[kubernetes]=={version('gpu-ci')}'"),
        ({"url": "file:///a/b", "dir_info": {"editable": True}}, "-e '/a/b[kubernetes]'"),
        ({"url": "file:///a/b", "dir_info": {}}, "'gpu-ci[kubernetes] @ file:///a/b'"),
        (
            {"url": "https://example.com/x", "vcs_info": {"vcs": "git", "commit_id": "0123"}},
            "'gpu-ci[kubernetes] @ git+https://example.com/x@0123'",
        ),
    ],
)
def test_the_hint_installs_the_missing_extra_from_where_the_package_came(
    monkeypatch: pytest.MonkeyPatch, record: dict[str, Any] | None, argument: str
) -> None:
    monkeypatch.setattr(extras, "direct_url", lambda: record or {})
    assert extras.hint("pulumi_kubernetes") == (
        f"install gpu-ci with the extra kubernetes: pip install {argument}; name it in requirements.txt too"
    )


def test_each_kind_of_pool_has_its_extras() -> None:
    assert {each.kind: sorted(each.extras) for each in catalog() if each.kind} == {
        "cloud-build": ["gcp"],
        "cloud-build-gpu": ["gcp"],
        "ec2-runners": ["aws"],
        "eks-runners": ["aws", "kubernetes"],
        "gce-runners": ["gcp"],
        "gke-runners": ["gcp", "kubernetes"],
        "rented-runners": [],
    }
    assert {extra for each in catalog() for extra in each.extras} <= set(extras.EXTRA_OF.values())


@pytest.mark.parametrize("module", ["", "torch", "pulumi_gcpx", "google"])
def test_other_modules_have_no_hint(module: str) -> None:
    assert extras.hint(module) == ""


def environment(folder: Path, requirement: str) -> Path:
    """An environment with this requirement alone. Returns its Python."""
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([UV, "pip", "install", "-q", "--python", python, requirement], check=True)
    return python


@pytest.mark.slow
@pytest.mark.parametrize("extra", RECEIVED)
def test_an_extra_installs_what_its_components_import_and_no_other_cloud(
    wheel: Path, tmp_path: Path, extra: str
) -> None:
    statement, sdks = RECEIVED[extra]
    python = environment(tmp_path / "venv", f"gpu-ci{f'[{extra}]' if extra else ''} @ {wheel.as_uri()}")
    code = (
        f"{statement}\nimport importlib.util\n"
        f"print([name for name in {SDKS!r} if importlib.util.find_spec(name)] == {list(sdks)!r})"
    )
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (answer.returncode, answer.stdout.splitlines()[-1:]) == (0, ["True"]), answer.stderr


@pytest.mark.slow
def test_the_package_installs_from_a_git_address(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", f"gpu-ci[cli] @ git+{ROOT.as_uri()}")
    answer = subprocess.run([python, "-m", "gpu_ci.cli", "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("gpu-ci ")


@pytest.mark.slow
def test_a_stack_without_a_cloud_reports_what_to_install(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", f"gpu-ci[cli] @ {wheel.as_uri()}")
    command = [python, "-m", "gpu_ci.cli", "check", str(ROOT / "Pulumi.prod.yaml")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert answer.returncode == 1
    assert answer.stdout.count(".kind: needs pulumi_gcp\n") == 4
    assert answer.stderr == ""
