"""The images: pairs of torch and CUDA, the check of Dockerfiles, and the files that no layer may have."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from gpu_ci import versions

from tests.conftest import ROOT
from tools.images import build, check, compare, layers, matrix, sizes

IMAGES = ("dev", "runner", "runtime")
TEXTS = {name: (ROOT / f"images/{name}/Dockerfile").read_text() for name in IMAGES}
CELLS = {(cell.platform, cell.torch, cell.cuda): cell for cell in matrix.cells()}


# --- the pairs ---


@pytest.mark.parametrize(
    ("platform", "torch", "cuda", "driver", "gpu", "kernels_read"),
    [
        ("linux/amd64", "2.15.0", "cu132", 580, "NVIDIA L4", True),
        ("linux/amd64", "2.15.0", "cu130", 580, "NVIDIA L4", False),
        ("linux/amd64", "2.14.1", "cu126", 525, "Tesla V100", True),
        ("linux/amd64", "2.7.1", "cu118", 450, "Tesla P100", True),
        ("linux/arm64", "2.14.1", "cu130", 580, "NVIDIA GB200", True),
        ("linux/arm64", "2.14.1", "cu126", 525, "NVIDIA GH200 480GB", True),
    ],
)
def test_a_pair_that_works_has_its_driver_and_its_gpus(
    platform: str, torch: str, cuda: str, driver: int, gpu: str, kernels_read: bool
) -> None:
    cell = CELLS[platform, torch, cuda]
    assert (cell.refused, cell.driver, gpu in cell.gpus, cell.kernels_read) == ("", driver, True, kernels_read)


@pytest.mark.parametrize(
    ("platform", "torch", "cuda", "reason"),
    [
        ("linux/amd64", "2.15.0", "cu126", "torch 2.15.0 has no cu126 wheel for x86_64: it has cu130, cu132"),
        ("linux/amd64", "2.4.1", "cu124", "torch 2.4.1 supports Python 3.8 to 3.12, not 3.13"),
        ("linux/amd64", "2.1.2", "cu121", "torch 2.1.2 supports Python 3.8 to 3.11, not 3.12"),
        ("linux/arm64", "2.14.1", "cu129", "torch 2.14.1 has no cu129 wheel for arm64: it has cu126, cu130, cu132"),
        ("linux/arm64", "2.15.0", "cu132", "torch 2.15 for arm64 is not in the tables"),
    ],
)
def test_a_refused_pair_has_its_reason(platform: str, torch: str, cuda: str, reason: str) -> None:
    cell = CELLS[platform, torch, cuda]
    assert (cell.refused, cell.driver, cell.gpus) == (reason, None, ())


def test_every_pair_either_works_on_a_gpu_or_has_a_reason() -> None:
    assert len(CELLS) == 468
    assert sum(not cell.refused for cell in CELLS.values()) == 56
    assert all(bool(cell.gpus) != bool(cell.refused) for cell in CELLS.values())


def test_old_gpus_have_no_pair_with_cuda_13() -> None:
    volta = {cuda for (_, _, cuda), cell in CELLS.items() if "Tesla V100" in cell.gpus}
    assert volta == {"cu118", "cu121", "cu124", "cu126", "cu128", "cu129"}


# --- the files ---


def test_the_bases_have_the_pythons_and_the_runner_that_the_matrix_and_the_pools_have() -> None:
    bases = {name: re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE) for name, text in TEXTS.items()}
    assert bases == {
        "dev": ["python:3.13-slim-trixie"],
        "runtime": ["python:3.13-slim-trixie"],
        "runner": [f"ghcr.io/actions/actions-runner:{versions.RUNNER}"],
    }
    assert {name: matrix.PYTHONS[name] for name in ("dev", "runtime")} == {"dev": (3, 13), "runtime": (3, 13)}


def test_without_a_pair_torch_is_the_default_of_the_pools() -> None:
    assert f"\ntorch=={versions.TORCH} " in (ROOT / "locks/torch.lock").read_text()
    assert not CELLS["linux/amd64", versions.TORCH, "cu132"].refused


def test_a_build_gets_the_same_four_paths_in_all_images_and_nothing_else() -> None:
    [text] = {(ROOT / f"images/{name}/Dockerfile.dockerignore").read_text() for name in IMAGES}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    shown = ["images/install-torch.sh", "locks/torch.lock", "locks/uv.lock", "smoke/gpu_smoke"]
    assert lines == ["*", *(f"!{path}" for path in shown), "**/__pycache__"]
    assert all((ROOT / path).exists() for path in shown)


@pytest.mark.parametrize(("torch", "cuda"), [("2.14.1", ""), ("", "cu130")])
def test_half_a_pair_fails_before_anything_is_installed(torch: str, cuda: str) -> None:
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "images/install-torch.sh")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "TORCH": torch, "CUDA": cuda},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "install-torch: one build argument is missing",
        f"  got: TORCH={torch} CUDA={cuda}",
        "  expected: both, or none",
        "  hint: images/matrix.json lists the pairs that work",
    ]


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


def test_without_go_the_check_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "Dockerfile"
    file.write_text(GOOD)
    assert check.main([str(file)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "dockerfiles: no `go` on PATH",
        "  expected: the version in the `go` line of tools/dockerfile/go.mod, or a newer one",
        "  hint: https://go.dev/doc/install",
    ]


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


def test_sizes_are_those_of_the_compressed_layers_and_of_their_files(tmp_path: Path) -> None:
    path = blob(tmp_path, "1", {"a": b"x" * 5000, "b": b"y" * 3000})
    assert layers.size([path]) == layers.Size(path.stat().st_size, 8000, 2)
    assert path.stat().st_size < 1000


def test_an_oci_layout_is_read_in_the_order_of_its_layers(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    config = {"config": {"User": "1001"}}
    manifest = {"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:l1"}, {"digest": "sha256:l2"}]}
    (blobs / "c").write_text(json.dumps(config))
    (blobs / "m").write_text(json.dumps(manifest))
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:m"}]}))
    assert layers.read(tmp_path) == ([blobs / "l1", blobs / "l2"], config)


# --- two builds ---

CONFIG: dict[str, Any] = {
    "created": "2026-11-26T11:31:07.095899822Z",
    "architecture": "amd64",
    "config": {"User": "1001", "Env": ["PATH=/usr/bin"]},
    "rootfs": {"diff_ids": ["sha256:1"]},
    "history": [{"created": "2026-11-26T11:31:07Z", "created_by": "RUN true", "comment": "FROM 79342aefb392"}],
}


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    for field, value in {"uid": 1001, "gid": 1001, "mode": 0o644, "mtime": 100, **fields}.items():
        setattr(found, field, value)
    return found


def layer(folder: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for each, content in members:
            each.size = len(content)
            archive.addfile(each, io.BytesIO(content))
    return path


LINK, DIRECTORY, DEVICE = tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE


@pytest.mark.parametrize(
    ("one", "other", "fields"),
    [
        ((member("a"), b"x"), (member("./a", mtime=200), b"x"), "timestamp"),
        ((member("a"), b"x"), (member("a"), b"y"), "content"),
        ((member("a"), b"x" * 3_000_000), (member("a"), b"x" * 2_999_999 + b"y"), "content"),
        ((member("a"), b"x"), (member("a", mode=0o755), b"x"), "mode"),
        ((member("a"), b"x"), (member("a", uid=0), b"x"), "owner"),
        ((member("a"), b"x"), (member("a", gid=0), b"x"), "owner"),
        ((member("a"), b""), (member("a", type=DIRECTORY), b""), "type, content"),
        ((member("a", type=LINK, linkname="b"), b""), (member("a", type=LINK, linkname="c"), b""), "content"),
        ((member("a", type=DEVICE, devminor=1), b""), (member("a", type=DEVICE, devminor=2), b""), "content"),
        ((member("a", pax_headers={"SCHILY.xattr.user.x": "1"}), b""), (member("a"), b""), "attributes"),
        ((member("a"), b"x"), (member("a", mtime=200, mode=0o755, uid=0), b"yy"), "content, mode, owner, timestamp"),
    ],
)
def test_a_path_that_differs_is_reported_with_what_differs(
    tmp_path: Path, one: tuple[tarfile.TarInfo, bytes], other: tuple[tarfile.TarInfo, bytes], fields: str
) -> None:
    below = layer(tmp_path, (member("etc/a"), b"x"))
    first = compare.read([below, layer(tmp_path, one)], CONFIG)
    second = compare.read([below, layer(tmp_path, other)], CONFIG)
    assert [str(each) for each in compare.differences(first, second)] == [f"layer 2: /a differs: {fields}"]
    assert list(compare.problems(first, second)) == (
        [] if fields == "timestamp" else [f"layer 2: /a differs: {fields}"]
    )
    assert list(compare.differences(first, first)) == []


def test_a_path_of_only_one_build_is_reported_with_the_build_that_has_it(tmp_path: Path) -> None:
    both, one, other = (member("both"), b""), (member("one"), b""), (member("other"), b"")
    first = compare.read([layer(tmp_path, both, one)], CONFIG)
    second = compare.read([layer(tmp_path, both, other)], CONFIG)
    assert list(compare.problems(first, second)) == [
        "layer 1: /one differs: only in the first build",
        "layer 1: /other differs: only in the second build",
    ]


def test_paths_that_differ_are_counted_by_what_differs(tmp_path: Path) -> None:
    first = compare.read([layer(tmp_path, *((member(name), b"x") for name in "abcd"))], CONFIG)
    later = [(member("a", mtime=200), b"x"), (member("b", mtime=200), b"x"), (member("c"), b"y"), (member("d"), b"x")]
    second = compare.read([layer(tmp_path, *later)], CONFIG)
    assert compare.summary(first, second) == "4 paths: 2 differ only in their timestamp, 1 in more"


def test_the_configurations_of_two_builds_are_compared_without_times_and_ids(tmp_path: Path) -> None:
    [row] = CONFIG["history"]
    first = compare.read([layer(tmp_path)], CONFIG)
    second = CONFIG | {
        "created": "2026-11-27T00:00:00Z",
        "rootfs": {"diff_ids": ["sha256:2"]},
        "history": [row | {"created": "2026-11-27T00:00:00Z", "comment": "FROM 2329c73f9fea"}],
    }
    assert list(compare.problems(first, compare.read([layer(tmp_path)], second))) == []
    second = CONFIG | {"config": {"User": "0", "Env": ["PATH=/usr/bin"], "Labels": {"a": "b"}}, "history": []}
    assert list(compare.problems(first, compare.read([layer(tmp_path), layer(tmp_path)], second))) == [
        "configuration: config.Labels differs: content",
        "configuration: config.User differs: content",
        "configuration: history[0] differs: content",
        "configuration: number of layers differs: content",
    ]


@pytest.mark.parametrize(
    ("path", "content", "is_dated"),
    [
        ("etc/shadow", b"ci:!:20783:0:99999:7:::\n", True),
        ("etc/shadow-", b"ci:!:20783:0:99999:7:::\n", True),
        ("etc/shadow", b"ci:!:3652:0:99999:7:::\n", False),
        ("opt/port", b"host:20783:\n", False),
        ("opt/built", b"built on 2026-11-26", True),
        ("opt/built", b"built on 2026-11-25", False),
        ("opt/large", b"2026-11-26" + bytes(1 << 20), False),
    ],
)
def test_the_day_of_the_build_is_found_although_two_builds_on_one_day_do_not_differ(
    tmp_path: Path, path: str, content: bytes, is_dated: bool
) -> None:
    build = compare.read([layer(tmp_path, (member(path), content))], CONFIG)
    assert list(compare.problems(build, build)) == ([f"layer 1: /{path} has the day of the build"] if is_dated else [])


@pytest.mark.parametrize("name", IMAGES)
def test_users_and_bytecode_get_a_fixed_time(name: str) -> None:
    assert all(line.startswith(f"RUN SOURCE_DATE_EPOCH={build.EPOCH} ") for line in TEXTS[name].splitlines()
               if "useradd" in line and not line.startswith("#"))  # fmt: skip
    script = (ROOT / "images/install-torch.sh").read_text()
    assert script.index(f"export SOURCE_DATE_EPOCH={build.EPOCH}\n") < script.index("python3 -m venv")


# --- the sizes ---


def test_the_sizes_are_those_of_the_images_as_they_are_now() -> None:
    found = sizes.load()
    assert {"runtime"} <= set(found) <= set(IMAGES)
    changed = [name for name, row in found.items() if row.inputs != sizes.inputs(name)]
    assert changed == [], f'sudo make test-images ARGS="{" ".join(changed)} --write-sizes" && make docs'


def test_the_size_of_a_layer_is_recorded_with_its_command(tmp_path: Path) -> None:
    found = [blob(tmp_path, "1", {"a": b"x" * 5000}), blob(tmp_path, "2", {"b": b"y" * 3000, "c": b"z"})]
    history = [
        {"created_by": "/bin/sh -c #(nop) ADD file:e0d3 in / "},
        {"created_by": "/bin/sh -c #(nop) COPY dir:0a78b5 in /opt/torch "},
        {"created_by": "/bin/sh -c #(nop) ARG TORCH", "empty_layer": True},
        {"created_by": "|2 CUDA= TORCH= /bin/sh -c --mount=type=bind,target=/src /src/images/install-torch.sh"},
    ]
    measured = sizes.measure("dev", found, CONFIG | {"history": history})
    assert [(row.command, row.transfer, row.disk, row.files) for row in measured.layers] == [
        ("COPY /opt/torch", found[0].stat().st_size, 5000, 1),
        ("/src/images/install-torch.sh", found[1].stat().st_size, 3001, 2),
    ]
    assert (measured.date, measured.platform, measured.disk, measured.files) == ("2026-11-26", "linux/amd64", 8001, 3)
    assert measured.inputs == sizes.inputs("dev")


@pytest.mark.parametrize(
    ("path", "old", "new", "changes"),
    [
        ("images/dev/Dockerfile", "# torch, gpu-smoke", "# gpu-smoke", False),
        ("images/dev/Dockerfile", " cmake ", " cmake clang ", True),
        ("images/install-torch.sh", "chmod 755", "chmod 750", True),
        ("locks/torch.lock", "torch==2.15.0 ", "torch==2.16.0 ", True),
        ("locks/torch.lock", "--hash=sha256:0", "--hash=sha256:1", False),
        ("locks/uv.lock", "uv==", "uv==9", True),
    ],
)
def test_a_size_is_stale_after_a_change_of_commands_or_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, old: str, new: str, changes: bool
) -> None:
    before = sizes.inputs("dev")
    for each in ("images/dev/Dockerfile", "images/install-torch.sh", "locks/torch.lock", "locks/uv.lock"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / each, tmp_path / each)
    monkeypatch.setattr(sizes, "ROOT", tmp_path)
    assert sizes.inputs("dev") == before
    text = (tmp_path / path).read_text()
    assert old in text
    (tmp_path / path).write_text(text.replace(old, new))
    assert (sizes.inputs("dev") != before) == changes


def test_the_sizes_of_one_image_replace_its_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "FILE", tmp_path / "sizes.json")
    sizes.FILE.write_text('{"images": {}}')
    old = sizes.Measured("2026-11-25", "linux/amd64", "x", (sizes.Layer("RUN a | b", 3_100_000_000, 5_600_000_000, 2),))
    new = sizes.Measured("2026-11-26", "linux/amd64", "y", (*old.layers, sizes.Layer("COPY", 50_000, 90_000, 1000)))
    for name, row in (("runtime", old), ("dev", old), ("runtime", new)):
        sizes.write(name, row)
    assert sizes.load() == {"dev": old, "runtime": new}
    lines = list(sizes.page())
    assert "Not measured yet: `runner`." in lines
    assert "| `runtime` | linux/amd64 | 3.10 GB | 5.60 GB | 2 | 1,002 | 2026-11-26 |" in lines
    assert "| `RUN a \\| b` | 3,100.0 MB | 5,600.0 MB | 2 |" in lines
    assert "| `COPY` | 0.1 MB | 0.1 MB | 1,000 |" in lines


# --- make test-images ---


def test_test_images_refuses_what_it_cannot_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*arguments: str) -> list[str]:
        assert build.main(list(arguments)) == 1
        return capsys.readouterr().err.splitlines()

    assert error("gpu") == ["images: unknown image", "  got: gpu", "  expected: dev, runtime, runner"]
    assert error("runner", "--runner", str(tmp_path)) == [
        "images: --runner is not GitHub's runner",
        f"  got: {tmp_path}, without a file run.sh",
        "  expected: the folder into which actions-runner-linux-<arch>-<version>.tar.gz was unpacked",
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert error() == [
        "images: buildah and mmdebstrap cannot be found on PATH",
        "  hint: on Debian and Ubuntu, apt-get install --no-install-recommends buildah mmdebstrap",
    ]
    for tool in (*build.TOOLS, "arch-test"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert error() == [
        "images: the build needs root, for chroot and overlay mounts",
        "  hint: sudo make test-images",
    ]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 2 << 30))
    assert error()[1:3] == ["  got: 2 GiB free", f"  expected: {build.NEEDED_GIB} GiB"]
    assert error("dev", "--small")[1:3] == ["  got: 2 GiB free", f"  expected: {build.SMALL_GIB} GiB"]
    monkeypatch.setattr(build, "EMULATORS", tmp_path)
    other = "linux/arm64" if build.NATIVE == "linux/amd64" else "linux/amd64"
    assert error("dev", "--platform", other) == [
        f"images: this machine cannot run programs of {other}",
        f"  got: no emulator in {tmp_path}",
        "  hint: on Debian and Ubuntu, apt-get install qemu-user-static; or build on such a machine",
    ]
    (tmp_path / f"qemu-{build.MACHINES[other]}").write_text("")
    assert error("dev", "--platform", other)[0].startswith("images: too little disk")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--report", "x"], "--report needs --compare"),
        (["--small", "--write-sizes"], "--write-sizes needs the whole image, without --small"),
        (["--platform", "linux/s390x"], "argument --platform: invalid choice: 'linux/s390x'"),
    ],
)
def test_test_images_refuses_options_that_do_not_go_together(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        build.main(arguments)
    assert problem in capsys.readouterr().err
