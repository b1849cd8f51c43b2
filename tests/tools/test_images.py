"""The images: their files, and the files that no layer may have."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from gpu_ci import versions

from tests.conftest import ROOT
from tools import images

IMAGES = ("dev", "runner", "runtime")


def test_torch_without_arguments_is_the_default_of_the_pools() -> None:
    assert f"\ntorch=={versions.TORCH} " in (ROOT / "locks/torch.lock").read_text()


@pytest.mark.parametrize("file", [*(f"images/{name}/Dockerfile" for name in IMAGES), "manager/Dockerfile"])
def test_no_image_runs_as_root(file: str) -> None:
    users = [line.split()[1] for line in (ROOT / file).read_text().splitlines() if line.startswith("USER ")]
    assert int(users[-1].partition(":")[0]) > 0


def test_a_build_gets_the_same_four_paths_in_all_images_and_nothing_else() -> None:
    [text] = {(ROOT / f"images/{name}/Dockerfile.dockerignore").read_text() for name in IMAGES}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    shown = ["images/install-torch.sh", "locks/torch.lock", "locks/uv.lock", "smoke/gpu_smoke"]
    assert lines == ["*", *(f"!{path}" for path in shown), "**/__pycache__"]
    assert all((ROOT / path).exists() for path in shown)


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
        ("root/.cache/uv/wheels/a", b"x", "is a cache"),
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
        ("opt/torch.whl", b"x", "is a downloaded package"),
        ("usr/lib/a", KEY, "has a private key"),
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
    assert list(images.problems(found, {})) == [f"layer 2: /{file.removeprefix('./')} {what}"]


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
    assert list(images.problems([blob(tmp_path, "1", files)], config)) == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"config": {"Env": ["UV_INDEX_URL=x"]}}, "configuration: the variable UV_INDEX_URL has a value"),
        ({"config": {"Env": ["https_proxy=x"]}}, "configuration: the variable https_proxy has a value"),
        ({"history": [{"created_by": "RUN login ghp_" + "a" * 36}]}, "configuration: has a token of GitHub"),
    ],
)
def test_the_configuration_of_an_image_is_searched_too(config: dict[str, object], problem: str) -> None:
    assert list(images.problems([], config)) == [problem]


def test_an_oci_layout_is_read_in_the_order_of_its_layers(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    config = {"config": {"User": "1001"}}
    manifest = {"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:l1"}, {"digest": "sha256:l2"}]}
    (blobs / "c").write_text(json.dumps(config))
    (blobs / "m").write_text(json.dumps(manifest))
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:m"}]}))
    assert images.read(tmp_path) == ([blobs / "l1", blobs / "l2"], config)
