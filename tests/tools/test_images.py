"""The images: pairs of torch and CUDA, the check of Dockerfiles, and the files that no layer may have."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from gpu_ci import versions

from tests.conftest import ROOT
from tools.images import check, layers, pairs

IMAGES = ("dev", "runner", "runtime")
PAIRS = {(pair.platform, pair.torch, pair.cuda): pair for pair in pairs.pairs()}


# --- the pairs ---


def test_a_pair_works_for_the_gpus_that_its_wheel_has_kernels_for() -> None:
    assert len(PAIRS) == 56
    assert "NVIDIA L4" in PAIRS["linux/amd64", "2.15.0", "cu132"].gpus
    assert "Tesla P100" in PAIRS["linux/amd64", "2.7.1", "cu118"].gpus
    assert PAIRS["linux/arm64", "2.14.1", "cu130"].gpus == ("NVIDIA GB200", "NVIDIA GB300", "NVIDIA GH200 480GB")
    # No wheel; no Python 3.13; not in the tables.
    refused = [
        ("linux/amd64", "2.15.0", "cu126"),
        ("linux/amd64", "2.4.1", "cu124"),
        ("linux/arm64", "2.15.0", "cu132"),
    ]
    assert not set(refused) & set(PAIRS)
    volta = {cuda for (_, _, cuda), pair in PAIRS.items() if "Tesla V100" in pair.gpus}
    assert volta == {"cu118", "cu121", "cu124", "cu126", "cu128", "cu129"}


# --- the files ---


def test_without_a_pair_torch_is_the_default_of_the_pools() -> None:
    assert f"\ntorch=={versions.TORCH} " in (ROOT / "locks/torch.lock").read_text()
    assert ("linux/amd64", versions.TORCH, "cu132") in PAIRS


def test_a_build_gets_the_same_four_paths_in_all_images_and_nothing_else() -> None:
    [text] = {(ROOT / f"images/{name}/Dockerfile.dockerignore").read_text() for name in IMAGES}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    shown = ["images/install-torch.sh", "locks/torch.lock", "locks/uv.lock", "smoke/gpu_smoke"]
    assert lines == ["*", *(f"!{path}" for path in shown), "**/__pycache__"]
    assert all((ROOT / path).exists() for path in shown)


# --- the check of Dockerfiles ---

GOOD = "FROM debian:trixie-slim\nUSER 1001\n"


def test_the_check_converts_every_dockerfile_and_every_pair_that_works() -> None:
    files = [str(file) for file in check.dockerfiles()]
    assert files == [*(f"images/{name}/Dockerfile" for name in IMAGES), "manager/Dockerfile"]
    assert {file: len(check.builds(Path(file))) for file in files} == {
        "images/dev/Dockerfile": 58,
        "images/runner/Dockerfile": 58,
        "images/runtime/Dockerfile": 58,
        "manager/Dockerfile": 2,
    }


@pytest.mark.slow
def test_the_check_finds_a_mistake_in_each_bad_dockerfile(tmp_path: Path) -> None:
    bad = {
        "an empty file": ("", "error:0"),
        "no base": ("RUN true\n", "error:1"),
        "an unknown instruction": (GOOD + "FETCH x\n", "error:3"),
        "an argument of FROM that is not declared": ("FROM debian:${RELEASE}\nUSER 1001\n", "UndefinedArgInFrom:1"),
        "a variable that is not declared": (GOOD + "WORKDIR /${NOWHERE}\n", "UndefinedVar:3"),
        "a moving tag": ("FROM debian:latest\nUSER 1001\n", "base:0"),
        "a moving tag in an argument": ("ARG BASE=debian\nFROM ${BASE}\nUSER 1001\n", "base:0"),
        "an argument without a default": ("ARG BASE\nFROM ${BASE}\nUSER 1001\n", "error:2"),
        "the user root": ("FROM debian:trixie-slim\nUSER root\n", "user:0"),
        "the user 0 and a group": ("FROM debian:trixie-slim\nUSER 0:1001\n", "user:0"),
        "no user": ("FROM debian:trixie-slim\nRUN true\n", "user:0"),
        "a key in a variable": (GOOD + "ENV API_TOKEN=x\n", "SecretsUsedInArgOrEnv:3"),
        "a key in an argument": (GOOD + "ARG DEPLOY_SECRET\n", "SecretsUsedInArgOrEnv:3"),
        "a relative folder": (GOOD + "WORKDIR work\n", "DL3000:3"),
        "ADD of a file": (GOOD + "ADD file.txt /\n", "DL3020:3"),
        "sudo": (GOOD + "RUN sudo true\n", "DL3004:3"),
        "apt lists that stay": (GOOD + "RUN apt-get update && apt-get -y install git\n", "DL3009:3"),
        "an unquoted command": (GOOD + "RUN touch $(pwd)\n", "SC2046:3"),
        "two stages of one name": ("FROM debian:12 AS a\nFROM debian:13 AS a\nUSER 1\n", "DuplicateStageName:2"),
        "a stage that comes later": ("FROM late\nFROM debian:trixie AS late\nUSER 1\n", "DL3006:1"),
        "a mount of an unknown type": (GOOD + "RUN --mount=type=disk,target=/x true\n", "error:3"),
        "a command as text": (GOOD + "CMD run it\n", "JSONArgsRecommended:3"),
        "ENV with a space": (GOOD + "ENV A x\n", "LegacyKeyValueFormat:3"),
        "a fixed platform": ("FROM --platform=linux/amd64 debian:13\nUSER 1\n", "FromPlatformFlagConstDisallowed:1"),
    }  # fmt: skip
    files = {}
    for number, (text, _) in enumerate(bad.values()):
        files[number] = tmp_path / f"{number}" / "Dockerfile"
        files[number].parent.mkdir()
        files[number].write_text(text)
    good = tmp_path / "good" / "Dockerfile"
    good.parent.mkdir()
    good.write_text(GOOD)
    found: dict[str, set[str]] = {}
    for finding in check.findings([*files.values(), good]):
        found.setdefault(finding.file, set()).add(f"{finding.rule}:{finding.line}")
    missed = {
        name: found.get(str(file))
        for file, (name, (_, expected)) in zip(files.values(), bad.items(), strict=True)
        if expected not in found.get(str(file), ())
    }
    assert missed == {}
    assert str(good) not in found


@pytest.mark.slow
def test_the_dockerfiles_of_the_checkout_have_no_findings() -> None:
    assert check.findings(check.dockerfiles()) == []


# --- the layers ---


def blob(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    path = folder / name
    with tarfile.open(path, "w:gz") as archive:
        for file, content in files.items():
            member = tarfile.TarInfo(file)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n"


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("var/lib/apt/lists/deb_dists_trixie_InRelease", b"x", "is an index of a package manager"),
        ("var/cache/apt/pkgcache.bin", b"x", "is an index of a package manager"),
        ("var/cache/dnf/updates.solv", b"x", "is an index of a package manager"),
        ("var/cache/apt/archives/git_2.deb", b"x", "is a downloaded package"),
        ("opt/torch-2.15.0-cp313-none-any.whl", b"x", "is a downloaded package"),
        ("root/.cache/uv/wheels/a", b"x", "is a cache"),
        ("home/ci/.cache/pip/http/a", b"x", "is a cache"),
        ("home/ci/.ccache/a", b"x", "is a cache"),
        ("root/.npm/_cacache/a", b"x", "is a cache"),
        ("var/cache/ldconfig/aux-cache", b"x", "is a cache"),
        ("var/log/dpkg.log", b"x", "is a log"),
        ("tmp/build.txt", b"x", "is a temporary file"),
        ("etc/machine-id", b"x", "is an identity of one machine"),
        ("etc/ssh/ssh_host_ed25519_key", b"x", "is an identity of one machine"),
        ("./etc/pip.conf", b"x", "is a setting or a login of this machine"),
        ("etc/uv/uv.toml", b"x", "is a setting or a login of this machine"),
        ("root/.netrc", b"x", "is a setting or a login of this machine"),
        ("root/.docker/config.json", b"x", "is a setting or a login of this machine"),
        ("home/ci/.ssh/id_ed25519", b"x", "is a key"),
        ("root/.pulumi/credentials.json", b"x", "is a state of Pulumi"),
        ("usr/local/a.whl", b"x", "is a downloaded package"),
        ("usr/lib/a", KEY, "has a private key"),
        ("opt/a", KEY, "has a private key"),
        ("opt/a", b"token: ghp_" + b"a" * 36, "has a token of GitHub"),
        ("opt/a", b"id=AKIA" + b"A" * 16, "has an access key of AWS"),
        ("opt/a", b'{"type": "service_account"}', "has a key of a Google service account"),
        ("opt/a", b"url = https://user:password1@example.com/simple", "has an address with a password"),
    ],
)
def test_a_file_that_no_layer_may_have_is_found_in_the_layer_that_wrote_it(
    tmp_path: Path, file: str, content: bytes, what: str
) -> None:
    # The third layer deletes the file, as `rm` in a later command does. The second layer still has it.
    found = [
        blob(tmp_path, "1", {"usr/bin/git": b"x"}),
        blob(tmp_path, "2", {file: content}),
        blob(tmp_path, "3", {f"{Path(file).parent}/.wh.{Path(file).name}": b""}),
    ]
    assert list(layers.problems(found, {})) == [f"layer 2: /{file.removeprefix('./')} {what}"]


def test_what_images_need_is_not_taken_for_a_secret_or_a_cache(tmp_path: Path) -> None:
    files = {
        "opt/torch/lib/python3.13/site-packages/torch/__init__.py": b"import os",
        "opt/torch/lib/python3.13/site-packages/torch/__pycache__/x.pyc": b"x",
        "opt/doc.txt": b"-----BEGIN PRIVATE KEY-----\n...\n https://user:pw@host, https://{user}:{password}@host, https://username:password@host.com",
        "etc/ssl/certs/ca.pem": b"-----BEGIN CERTIFICATE-----",
        "home/ci/.bashrc": b"export GITHUB_TOKEN=ghp_...",
        # Packages of the distribution have examples of passwords, and wheels.
        "usr/share/doc/git-lfs/authentication.md": b"https://user:password1@example.com",
        "usr/share/python-wheels/pip-25.1-py3-none-any.whl": b"x",
        "var/lib/dpkg/info/git-lfs.list": b"/.\n/usr\n/usr/share/doc/git-lfs/authentication.md\n",
        "var/lib/dpkg/info/python3-pip-whl.list": b"/usr/share/python-wheels/pip-25.1-py3-none-any.whl\n",
    }
    config = {"config": {"Env": ["PATH=/opt/torch/bin", "API_TOKEN="]}}
    assert list(layers.problems([blob(tmp_path, "1", files)], config)) == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"config": {"Env": ["UV_INDEX_URL=x"]}}, "configuration: the variable UV_INDEX_URL has a value"),
        ({"config": {"Env": ["https_proxy=x"]}}, "configuration: the variable https_proxy has a value"),
        ({"history": [{"created_by": "RUN login ghp_" + "a" * 36}]}, "configuration: has a token of GitHub"),
    ],
)
def test_the_configuration_of_an_image_is_searched_too(config: dict[str, object], problem: str) -> None:
    assert list(layers.problems([], config)) == [problem]


def test_an_oci_layout_is_read_in_the_order_of_its_layers(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    config = {"config": {"User": "1001"}}
    manifest = {"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:l1"}, {"digest": "sha256:l2"}]}
    (blobs / "c").write_text(json.dumps(config))
    (blobs / "m").write_text(json.dumps(manifest))
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:m"}]}))
    assert layers.read(tmp_path) == ([blobs / "l1", blobs / "l2"], config)


# --- make test-images ---
