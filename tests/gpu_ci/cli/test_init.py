"""`gpu-ci init`: the files of a new repository, and every mistake of its options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gpu_ci.cli import init

from tests.conftest import ROOT
from tests.gpu_ci.cli.conftest import Ask

FILES = [
    ".gitignore",
    "Pulumi.dev.yaml",
    "Pulumi.yaml",
    "__main__.py",
    "plugin/PulumiPlugin.yaml",
    "plugin/__main__.py",
    "requirements.txt",
    "sandbox.yaml",
]
IMAGE = f"ghcr.io/acme/runner:2.336.0@sha256:{'0' * 64}"
GITHUB = ("--organization", "acme", "--repository", "kernels")
GOOGLE = ("--project", "acme-ci", "--pool", "l4=g2-standard-8:spot")
AWS = (
    *("--project", "acme-ci", *GITHUB, "--pool", "a10g=g5.2xlarge:spot", "--cluster", "ci", "--runner-image", IMAGE),
    *("--subnet", "us-east-1a=subnet-0a1b2c3d4e5f60001", "--subnet", "us-east-1b=subnet-0a1b2c3d4e5f60002"),
)
SETS = {"google": (*GOOGLE, *GITHUB), "aws": AWS, "both": (*AWS, "--pool", "l4=g2-standard-8:spot")}


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_without_write_no_file_is_written_and_every_file_is_printed(ask: Ask, tmp_path: Path) -> None:
    answer = ask("init", "new", *GOOGLE)
    assert (answer.code, answer.err, written(tmp_path)) == (0, "", [])
    assert [line for line in FILES if f"{line}\n" in answer.out] == FILES
    assert "Nothing was written." in answer.out


@pytest.mark.parametrize("options", SETS.values(), ids=SETS)
def test_the_written_stack_file_passes_the_check(ask: Ask, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert ask("init", "new", *options, "--write").code == 0
    assert written(tmp_path / "new") == FILES
    answer = ask("check", "new/Pulumi.dev.yaml", "--json")
    assert (answer.code, [each["works"] for each in answer.json]) == (0, [True])


@pytest.mark.parametrize(
    ("options", "extras", "apps"),
    [
        (GOOGLE, "cli,gcp,sandbox", []),
        (SETS["google"], "cli,gcp,github,sandbox", ["app", "managerApp"]),
        (SETS["aws"], "aws,cli,gcp,github,kubernetes,sandbox", ["app", "runnerApp"]),
        (SETS["both"], "aws,cli,gcp,github,kubernetes,sandbox", ["app", "runnerApp", "managerApp"]),
    ],
)
def test_the_clouds_decide_the_extras_and_the_apps(
    ask: Ask, options: tuple[str, ...], extras: str, apps: list[str]
) -> None:
    files = ask("init", "new", *options, "--package", "git+https://example.com/gpu-ci@0123", "--json").json["files"]
    assert files["requirements.txt"] == f"gpu-ci[{extras}] @ git+https://example.com/gpu-ci@0123\n"
    github = yaml.safe_load(files["Pulumi.dev.yaml"])["config"]["gpu-ci:site"].get("github", {})
    assert [key for key in github if key != "owner"] == apps


def test_a_pool_gets_the_zones_of_its_region_and_its_attached_gpu(ask: Ask) -> None:
    options = ("--project", "acme-ci", "--pool", "t4=n1-standard-8+nvidia-tesla-t4x2", "--region", "europe-west4")
    stack = ask("init", "new", *options, "--json").json["files"]["Pulumi.dev.yaml"]
    [pool] = yaml.safe_load(stack)["config"]["gpu-ci:pools"].values()
    assert pool["guestAccelerator"] == {"type": "nvidia-tesla-t4", "count": 2}
    assert pool["zones"] == ["europe-west4-a", "europe-west4-b", "europe-west4-c"]
    assert pool["market"] == "standard"


def test_a_second_stack_keeps_the_files_of_the_first(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *GOOGLE, "--write")
    (tmp_path / "new" / "__main__.py").write_text("mine\n")
    answer = ask("init", "new", *GOOGLE, "--stack", "prod", "--write")
    results = dict(answer.rows)
    assert results.pop("__main__.py") == "kept: exists with other content"
    assert results.pop("Pulumi.prod.yaml") == "written"
    assert set(results.values()) == {"exists, unchanged"}
    assert (tmp_path / "new" / "__main__.py").read_text() == "mine\n"


def test_an_existing_stack_is_refused_and_kept(ask: Ask, tmp_path: Path) -> None:
    ask("init", "new", *GOOGLE, "--write")
    before = (tmp_path / "new" / "Pulumi.dev.yaml").read_text()
    answer = ask("init", "new", *GOOGLE, "--region", "europe-west4", "--write")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("new/Pulumi.dev.yaml: exists, and init never changes a file\n")
    assert (tmp_path / "new" / "Pulumi.dev.yaml").read_text() == before


MISTAKES = {
    ("--pool", "l4=g2-standard-8"): ["--project is missing"],
    ("--pool", "a10g=g5.2xlarge"): [
        "--project is missing",
        "--organization is missing",
        "--repository is missing",
        "--cluster is missing",
        "--subnet is missing",
        "--runner-image is missing",
    ],
    ("--project", "acme-ci", "--organization", "acme"): ["--repository is missing"],
    ("--project", "acme-ci", "--pool", "l4"): ["--pool 'l4' has another form"],
    ("--project", "acme-ci", "--pool", "l4=g2-standrd-8"): ["did you mean g2-standard-8"],
    ("--project", "acme-ci", "--pool", "l4=g2-standard-8:sopt"): ["did you mean spot"],
    ("--project", "acme-ci", "--pool", "h=a3-highgpu-8g", "--region", "us-west2"): ["has no a3-highgpu-8g"],
    ("--project", "acme-ci", "--stack", "a/b"): ["--stack 'a/b' is not a name that Pulumi accepts"],
    (*AWS, "--subnet", "us-west-2a=subnet-0a1b2c3d4e5f60003"): ["zones of several regions: us-east-1, us-west-2"],
    ("--project", "Acme_CI"): ["gcp:project"],
    ("--project", 'a", x: "y'): ["gcp:project"],
    ("--project", "acme-ci", "--pool", "L4_big=g2-standard-8"): ["gpu-ci:pools.L4_big"],
    ("--project", "acme-ci", "--organization", "ac me", "--repository", "k"): ["gpu-ci:site.github.owner"],
    ("--project", "acme-ci", "--organization", "acme", "--repository", "a/b"): ["runnerGroup.repositories[0]"],
    (*AWS[:-4], "--subnet", "us-east-1a=sn-1"): ["gpu-ci:clusters.ci.subnets.us-east-1a"],
    tuple("latest" if value == IMAGE else value for value in AWS): ["gpu-ci:pools.a10g.runner.image"],
}


@pytest.mark.parametrize(("options", "problems"), MISTAKES.items(), ids=[" ".join(key)[:60] for key in MISTAKES])
def test_mistakes_are_reported_together_and_nothing_is_written(
    ask: Ask, tmp_path: Path, options: tuple[str, ...], problems: list[str]
) -> None:
    answer = ask("init", "new", *options, "--write")
    assert (answer.code in (1, 2), answer.out, written(tmp_path)) == (True, "", [])
    assert [text for text in problems if text not in answer.err] == []


def test_missing_options_are_prompted_for_on_a_terminal(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["l4=g2-standard-8", "acme", "kernels docs", "acme-ci"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    assert ask("init", "new", "--write").code == 0
    config = yaml.safe_load((tmp_path / "new" / "Pulumi.dev.yaml").read_text())["config"]
    assert config["gpu-ci:github"] == {"runnerGroup": {"repositories": ["kernels", "docs"]}}
    assert config["gcp:project"] == "acme-ci"


def test_a_folder_that_is_not_writable_is_one_line(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("a file where the folder would be\n")
    answer = ask("init", ".", *GOOGLE, "--write")
    assert answer.code == 2
    assert answer.err.startswith("plugin/PulumiPlugin.yaml: cannot be written\n")


def test_every_template_is_used() -> None:
    folder = Path(str(init.__file__)).parent / "templates"
    from gpu_ci.cli.init.repository import TEMPLATES

    assert sorted(TEMPLATES.values()) == sorted(str(path.relative_to(folder)) for path in folder.rglob("*.j2"))


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.parametrize(("options", "created"), list(zip(SETS.values(), (16, 45, 57), strict=True)), ids=list(SETS))
def test_three_commands_lead_from_an_empty_folder_to_a_preview(
    tmp_path: Path, options: tuple[str, ...], created: int
) -> None:
    """init, pip install, preview: with a wheel, so that nothing of the checkout is used but the CLI."""
    uv = ROOT / ".tools" / "bin" / "uv"
    subprocess.run([uv, "build", "-q", "--wheel", "-o", tmp_path, ROOT], check=True)
    [wheel] = tmp_path.glob("*.whl")
    new = tmp_path / "new"
    command = [ROOT / ".venv" / "bin" / "gpu-ci", "init", new, *options, "--package", wheel.as_uri(), "--write"]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, new / ".venv"], check=True)
    python = new / ".venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "-r", new / "requirements.txt"], check=True)
    environment = os.environ | {"PULUMI_SANDBOX_ENGINE_DIR": str(ROOT / ".engine")}
    environment.pop("PULUMI_SANDBOX_DIR", None)
    preview = [new / ".venv" / "bin" / "pulumi-sandbox", "preview", "--stack", "dev"]
    answer = subprocess.run(preview, cwd=new, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"+ {created} to create" in answer.stdout
