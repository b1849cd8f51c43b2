"""The programs of examples/: each makes the same pool in the sandbox, and destroys it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_ci.schema import schema

from tests.conftest import ROOT
from tests.sandbox_runner import SandboxRunner

# npm and pip install for some of them, on a machine that may be busy.
pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = ROOT / "examples"
COMPONENTS = ROOT / "components"
# Node.js of the development environment comes first: @pulumi/pulumi requires a newer one than many machines have.
SCRIPTS = Path(sys.executable).parent
MADE = [
    "gcp:compute/firewall:Firewall ci-deny",
    "gcp:compute/network:Network ci-network",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager l4-group",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate l4-template",
    "gcp:compute/router:Router ci-router",
    "gcp:compute/routerNat:RouterNat ci-nat",
    "gcp:compute/subnetwork:Subnetwork ci-subnetwork",
    "gcp:projects/iAMMember:IAMMember l4-log-writer",
    "gcp:serviceaccount/account:Account l4-account",
    "gpu-ci:gcp:RunnerNetwork ci",
    "gpu-ci:gcp:RunnerPool l4",
    "gpu-ci:gcp:SmokeGate l4-gate",
]
WRITTEN_BY_PACKAGE_ADD = {
    "python-sdk": ["Pulumi.yaml", "requirements.txt"],
    "typescript": ["Pulumi.yaml", "package.json"],
}


def copy_of(name: str, folder: Path) -> SandboxRunner:
    """Copy an example, with the paths of this checkout instead of relative ones."""
    project = folder / name
    ignored = shutil.ignore_patterns("node_modules", "package-lock.json", "sdks", "venv", ".sandbox")
    shutil.copytree(EXAMPLES / name, project, ignore=ignored)
    for file in ("Pulumi.yaml", "sandbox.yaml"):
        text = (project / file).read_text().replace("../../", f"{ROOT}/")
        if name == "python-import":  # its requirements are this checkout, which is installed here
            text = text.replace("virtualenv: venv", f"virtualenv: {ROOT}/.venv")
        (project / file).write_text(text)
    return SandboxRunner(project=project, folder=folder / "sandbox")


@pytest.fixture(params=["python-import", "python-sdk", "typescript", "yaml"])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SandboxRunner]:
    runner = copy_of(request.param, tmp_path)
    yield runner
    runner.close()


def path() -> str:
    return os.pathsep.join([str(SCRIPTS), os.environ["PATH"]])


def test_each_example_makes_the_same_pool_and_destroys_it(example: SandboxRunner) -> None:
    if example.project.name in WRITTEN_BY_PACKAGE_ADD:
        example.run("install", PATH=path())
    example.run("up", "--stack", "dev", "--yes", "--skip-preview", PATH=path())
    settings = Path(example.project.name, "Pulumi.dev.yaml")  # a deployment leaves the checkout clean
    assert (example.project.parent / settings).read_text() == (EXAMPLES / settings).read_text()
    made = [f"{resource['type']} {resource['urn'].rpartition('::')[2]}" for resource in example.state("dev")]
    assert sorted(each for each in made if not each.startswith("pulumi:")) == MADE
    outputs = example.json("stack", "output", "--stack", "dev", "--json")
    assert outputs["verdict"] == "pass"
    assert "/instanceTemplates/l4-template-" in outputs["template"]
    assert "13 unchanged" in example.run("up", "--stack", "dev", "--yes", "--skip-preview", PATH=path()).output
    example.run("destroy", "--stack", "dev", "--yes", "--skip-preview", PATH=path())
    assert example.state("dev") == []
    assert example.world() == []


@pytest.mark.parametrize("name", WRITTEN_BY_PACKAGE_ADD)
def test_package_add_writes_what_the_example_has(name: str, tmp_path: Path) -> None:
    runner = copy_of(name, tmp_path)
    # What a program looks like before: it names no package and no SDK.
    settings = (runner.project / "Pulumi.yaml").read_text().partition("packages:")[0]
    (runner.project / "Pulumi.yaml").write_text(settings)
    dependencies = runner.project / WRITTEN_BY_PACKAGE_ADD[name][1]
    if dependencies.suffix == ".json":
        content = json.loads(dependencies.read_text())
        del content["dependencies"]["@pulumi/gpu-ci"], content["allowScripts"]
        dependencies.write_text(json.dumps(content, indent=2))
    else:
        dependencies.write_text("pulumi==3.272.0\n")
    added = runner.run("package", "add", str(COMPONENTS), PATH=path())
    runner.close()
    assert added.has(
        'import * as gpuCi from "@pulumi/gpu-ci";' if name == "typescript" else "import pulumi_gpu_ci as gpu_ci"
    )
    for file in WRITTEN_BY_PACKAGE_ADD[name]:
        expected = (EXAMPLES / name / file).read_text().replace("../../", f"{ROOT}/")
        assert (runner.project / file).read_text().rstrip() == expected.rstrip()


@pytest.mark.parametrize(
    ("language", "file", "declaration"),
    [
        ("python", "pulumi_gpu_ci/gcp/runner_pool.py", "class RunnerPool(pulumi.ComponentResource):"),
        ("nodejs", "gcp/runnerPool.ts", "export class RunnerPool extends pulumi.ComponentResource {"),
    ],
)
def test_gen_sdk_writes_a_class_for_every_resource(
    tmp_path: Path, sandbox: SandboxRunner, language: str, file: str, declaration: str
) -> None:
    sandbox.run("package", "gen-sdk", "./components", "--language", language, "--out", str(tmp_path))
    assert declaration in (tmp_path / language / file).read_text()
    written = "".join(each.read_text() for each in (tmp_path / language).rglob(f"*{Path(file).suffix}"))
    assert [name for name in map(class_name, schema()["resources"]) if f"class {name}" not in written] == []


def class_name(token: str) -> str:
    return token.rpartition(":")[2]


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TypeScript example with its SDK and packages installed."""
    runner = copy_of("typescript", tmp_path_factory.mktemp("typescript"))
    runner.run("install", PATH=path())
    runner.close()
    return runner.project


def compiled(project: Path) -> str:
    """What the TypeScript compiler reports about a project."""
    command = [str(SCRIPTS / "npx"), "--no-install", "tsc", "--project", "."]
    return subprocess.run(command, cwd=project, env={"PATH": path()}, capture_output=True, text=True).stdout


def with_files(project: Path, files: list[str]) -> None:
    """Make the compiler read these files with the settings of the example."""
    settings = json.loads((EXAMPLES / "typescript" / "tsconfig.json").read_text())
    (project / "tsconfig.json").write_text(json.dumps({**settings, "files": files}))


def test_the_generated_typescript_compiles_under_strict_and_a_mistake_does_not(typescript: Path) -> None:
    # tsconfig.json is strict, and checks the declarations of the SDK too (no skipLibCheck).
    options = json.loads((typescript / "tsconfig.json").read_text())["compilerOptions"]
    assert options["strict"] is True
    assert "skipLibCheck" not in options
    program = typescript / "index.ts"
    right = program.read_text()
    with_files(typescript, ["index.ts"])
    assert compiled(typescript) == ""
    changes = {
        "max: 2": ('max: "2"', "Type 'string' is not assignable to type 'number'"),
        'market: "spot"': ('market: "spt"', "Type '\"spt\"' is not assignable to type"),
        "zones:": ("zone:", "'zone' does not exist in type 'RunnerPoolArgs'"),
        "pool.verdict": ("pool.verdikt", "Property 'verdikt' does not exist on type 'RunnerPool'"),
    }
    # One file for each mistake, so that one run of the compiler reports them all.
    for number, (old, (new, _)) in enumerate(changes.items()):
        assert old in right
        (typescript / f"wrong{number}.ts").write_text(right.replace(old, new))
    with_files(typescript, [f"wrong{number}.ts" for number in range(len(changes))])
    reported = compiled(typescript)
    for number, (_, problem) in enumerate(changes.values()):
        assert any(line.startswith(f"wrong{number}.ts") and problem in line for line in reported.splitlines()), reported
