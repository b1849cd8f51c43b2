"""The documents of Image Builder are valid, and their commands do what they say, run with fakes of the programs."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from gpu_ci.aws.image import documents

from tests.gpu_ci.aws.image.image_pipelines import DIGEST, PRIVATE, PUBLIC

HOST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
REFERENCE = f"ghcr.io/acme/cuda-runner@{DIGEST}"
TOKEN = base64.b64encode(b"AWS:planted-token").decode()

# Each fake notes its arguments. ctr also keeps the login, as it is while an image is pulled.
FAKES = {
    "aws": f"echo {TOKEN}",
    "systemctl": "",
    "ctr": """
while [ $# -gt 0 ]; do [ "$1" = --hosts-dir ] && cp -r "$2" "$HERE/hosts"; shift; done
cat "$HERE/complete"
""",
    "nvidia-smi": 'cat "$HERE/gpus"',
    "nvidia-ctk": "echo NVIDIA Container Toolkit CLI version 1.19.1",
    "kubelet": "echo Kubernetes v1.35.3-eks-0123456",
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name, body in FAKES.items():
        program = tmp_path / name
        program.write_text(f'#!/bin/bash\nprintf "%s " "{name}" "$@" >>"$HERE/calls"; echo >>"$HERE/calls"\n{body}\n')
        program.chmod(0o755)
    (tmp_path / "complete").write_text(f"{REFERENCE}\n{PRIVATE}\n")
    (tmp_path / "gpus").write_text("Tesla T4, 580.159.03\n")
    (tmp_path / "run").mkdir()
    return tmp_path


def step(document: str, phase: str, name: str) -> str:
    """Return the commands of a step of a document."""
    phases = {each["name"]: each["steps"] for each in yaml.safe_load(document)["phases"]}
    [found] = [each for each in phases[phase] if each["name"] == name]
    [command] = found["inputs"]["commands"]
    return str(command)


def run(commands: str, here: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands as AWSTOE does, in a shell of their own, with /run in the folder."""
    return subprocess.run(
        ["/bin/bash", "-c", commands.replace("/run/gpu-ci", f"{here}/run/gpu-ci")],
        env={"PATH": f"{here}:{os.environ['PATH']}", "HERE": str(here)},
        capture_output=True,
        text=True,
        check=False,
    )


def calls(here: Path) -> list[str]:
    return [line.strip() for line in (here / "calls").read_text().splitlines()]


@pytest.mark.parametrize("images", [[PUBLIC], [PUBLIC, PRIVATE]], ids=["public", "with ecr"])
def test_the_documents_have_their_phases(images: list[str]) -> None:
    both = (documents.pull(images), documents.check(images, "1.35"))
    assert [[phase["name"] for phase in yaml.safe_load(each)["phases"]] for each in both] == [
        ["build", "validate"],
        ["test"],
    ]


def test_images_are_pulled_by_the_name_that_the_kubelet_looks_up_and_pinned(here: Path) -> None:
    result = run(step(documents.pull([PUBLIC]), "build", "Pull"), here)
    assert (result.returncode, result.stderr) == (0, "")
    start, pull, label = calls(here)
    assert start == "systemctl start containerd"
    assert pull.startswith("ctr -n k8s.io images pull --hosts-dir ")
    assert pull.endswith(f" {REFERENCE}")
    assert label == f"ctr -n k8s.io images label {REFERENCE} io.cri-containerd.pinned=pinned"


def test_the_token_of_ecr_is_in_no_argument_and_gone_afterwards(here: Path) -> None:
    result = run(step(documents.pull([PUBLIC, PRIVATE]), "build", "Pull"), here)
    assert (result.returncode, result.stdout) == (0, "")
    assert (here / "hosts" / HOST / "hosts.toml").read_text() == (
        f'server = "https://{HOST}"\n[host."https://{HOST}"]\n  capabilities = ["pull", "resolve"]\n'
        f'[host."https://{HOST}".header]\n  Authorization = "Basic {TOKEN}"\n'
    )
    assert (here / "hosts" / HOST / "hosts.toml").stat().st_mode & 0o777 == 0o600
    assert "--region us-east-1 --registry-ids 123456789012" in next(c for c in calls(here) if c.startswith("aws"))
    assert TOKEN not in "\n".join(calls(here)) + result.stderr
    assert list((here / "run").iterdir()) == []


@pytest.mark.parametrize("broken", ["ctr", "aws", "systemctl"])
def test_a_failed_command_fails_the_build_and_leaves_no_token(here: Path, broken: str) -> None:
    (here / broken).write_text("#!/bin/bash\nexit 7\n")
    assert run(step(documents.pull([PRIVATE]), "build", "Pull"), here).returncode == 7
    assert list((here / "run").iterdir()) == []


@pytest.mark.parametrize(
    ("phase", "document"),
    [("validate", documents.pull([PUBLIC, PRIVATE])), ("test", documents.check([PUBLIC, PRIVATE], "1.35"))],
    ids=["build machine", "test machine"],
)
def test_an_image_that_is_not_complete_fails_the_check(here: Path, phase: str, document: str) -> None:
    commands = step(document, phase, "CheckImages")
    assert run(commands, here).returncode == 0
    (here / "complete").write_text(f"{REFERENCE}\n{PRIVATE}-longer\n")
    result = run(commands, here)
    assert (result.returncode, result.stderr) == (1, f"gpu-ci: {PRIVATE} is missing or incomplete\n")


def test_a_machine_without_a_working_driver_fails_the_check(here: Path) -> None:
    commands = step(documents.check([PUBLIC], "1.35"), "test", "CheckDriver")
    result = run(commands, here)
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "Tesla T4, 580.159.03")
    (here / "gpus").write_text("")
    assert run(commands, here).stderr == "gpu-ci: nvidia-smi reports no GPU\n"
    (here / "nvidia-smi").write_text("#!/bin/bash\nexit 9\n")
    assert run(commands, here).returncode == 9


@pytest.mark.parametrize(("version", "code"), [("1.35", 0), ("1.36", 1), ("1.3", 1)])
def test_an_image_for_another_kubernetes_version_fails_the_check(here: Path, version: str, code: int) -> None:
    assert run(step(documents.check([PUBLIC], version), "test", "CheckKubelet"), here).returncode == code


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        (PUBLIC, REFERENCE),
        (PRIVATE, PRIVATE),
        (f"localhost:5000/a/b:v1@{DIGEST}", f"localhost:5000/a/b@{DIGEST}"),
    ],
)
def test_the_reference_has_no_tag(image: str, reference: str) -> None:
    assert documents.reference(image) == reference
