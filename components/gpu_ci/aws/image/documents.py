"""The component documents of EC2 Image Builder: the commands that pull container images, and those that test an image.

The format is that of AWS's program AWSTOE (docs.aws.amazon.com/imagebuilder/latest/userguide/toe-use-documents.html).
Image Builder runs the phases build and validate on the build machine, and the phase test on a machine that was started
from the new image.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import yaml

MAX_CHARACTERS = 16_000
"""The maximum length of a document (botocore 1.44.5, imagebuilder: CreateComponentRequest.data)."""

_PULL_SEC = 3600
_CHECK_SEC = 600

ECR = re.compile(r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?")
"""The host of a private registry on Amazon ECR."""

_IMAGE = re.compile(r"(?P<host>[^/]+)/(?P<path>[^:@]+)(:[\w.-]+)?(?P<digest>@sha256:[0-9a-f]{64})")

_START = "set -euo pipefail"

# containerd does not run on an image of EKS until nodeadm has configured it. Without a configuration it uses the same
# folder and snapshotter (awslabs/amazon-eks-ami@81fec2e:templates/al2023/provisioners/cache-pause-container.sh).
_CONTAINERD = "systemctl start containerd"

# The token of ECR is in a file in memory that only root can read. It is in no argument, log or image. A token from
# get-authorization-token is the value of the HTTP header (docs.aws.amazon.com/AmazonECR/latest/APIReference/
# API_GetAuthorizationToken.html). The format of the file: containerd v2.2.4, docs/hosts.md.
_LOGIN = """\
login() {
  local token
  token=$(aws ecr get-authorization-token --region "$2" --registry-ids "$3" --output text \\
    --query 'authorizationData[0].authorizationToken')
  mkdir -p "$hosts/$1"
  printf 'server = "https://%s"\\n[host."https://%s"]\\n  capabilities = ["pull", "resolve"]\\n' "$1" "$1" \\
    >"$hosts/$1/hosts.toml"
  printf '[host."https://%s".header]\\n  Authorization = "Basic %s"\\n' "$1" "$token" >>"$hosts/$1/hosts.toml"
}"""

# The kubelet deletes no image with this label (containerd v2.2.4, internal/cri/labels/labels.go: PinnedImageLabelKey).
_PINNED = "io.cri-containerd.pinned=pinned"


def reference(image: str) -> str:
    """Return the name under which the kubelet finds an image: without the tag.

    containerd removes the tag of a name with a digest (distribution/reference v0.6.0: ParseDockerRef).
    """
    found = _IMAGE.fullmatch(image)
    return f"{found['host']}/{found['path']}{found['digest']}" if found else image


def pull(images: Sequence[str]) -> str:
    """Return the document that pulls container images into the image, and checks that they are complete."""
    references = [reference(image) for image in images]
    hosts = {host: ECR.fullmatch(host) for host in dict.fromkeys(each.partition("/")[0] for each in references)}
    logins = [f"login {host} {found['region']} {found['account']}" for host, found in hosts.items() if found]
    commands = [
        _START,
        _CONTAINERD,
        "umask 077",
        "hosts=$(mktemp -d /run/gpu-ci.XXXXXXXX)",
        "trap 'rm -rf \"$hosts\"' EXIT",
        *([_LOGIN, *logins] if logins else []),
        f"for image in {_listed(references)}; do",
        '  ctr -n k8s.io images pull --hosts-dir "$hosts" "$image" >/dev/null',
        f'  ctr -n k8s.io images label "$image" {_PINNED} >/dev/null',
        "done",
    ]
    return _document(
        "Pulls container images, so that nodes need not",
        {
            "build": [("Pull", commands, _PULL_SEC, 3)],
            "validate": [("CheckImages", _check_images(references), _CHECK_SEC, 1)],
        },
    )


def check(images: Sequence[str], kubernetes_version: str) -> str:
    """Return the document that tests a new image: its kubelet, its NVIDIA driver and its container images."""
    kubelet = [
        _START,
        "found=$(kubelet --version)",
        'echo "$found"',
        f'[[ "$found" == "Kubernetes v{kubernetes_version}."* ]] || {{',
        f'  echo "gpu-ci: the image is not for Kubernetes {kubernetes_version}" >&2',
        "  exit 1",
        "}",
    ]
    # nvidia-smi exits with 0 without output if it finds no GPU of which it may report.
    driver = [
        _START,
        "found=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)",
        'echo "$found"',
        '[[ -n "$found" ]] || { echo "gpu-ci: nvidia-smi reports no GPU" >&2; exit 1; }',
        "nvidia-ctk --version",
    ]
    references = [reference(image) for image in images]
    return _document(
        "Tests an image of GPU nodes",
        {
            "test": [
                ("CheckKubelet", kubelet, _CHECK_SEC, 1),
                ("CheckDriver", driver, _CHECK_SEC, 1),
                ("CheckImages", _check_images(references), _CHECK_SEC, 1),
            ]
        },
    )


def _check_images(references: Sequence[str]) -> list[str]:
    # With -q, the command prints the images of which every layer is there and unpacked (containerd v2.2.4,
    # cmd/ctr/commands/images/images.go: checkCommand).
    return [
        _START,
        _CONTAINERD,
        "complete=$(ctr -n k8s.io images check -q)",
        f"for image in {_listed(references)}; do",
        '  grep -Fxq -- "$image" <<<"$complete" || { echo "gpu-ci: $image is missing or incomplete" >&2; exit 1; }',
        "done",
    ]


def _listed(references: Sequence[str]) -> str:
    return " \\\n  ".join(map(shlex.quote, references))


def _document(description: str, phases: dict[str, list[tuple[str, list[str], int, int]]]) -> str:
    document = {
        "schemaVersion": 1.0,
        "description": description,
        "phases": [{"name": name, "steps": [_step(*each) for each in steps]} for name, steps in phases.items()],
    }
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000))


def _step(name: str, commands: Iterable[str], timeout_sec: int, attempts: int) -> dict[str, object]:
    return {
        "name": name,
        "action": "ExecuteBash",
        "timeoutSeconds": timeout_sec,
        "onFailure": "Abort",
        "maxAttempts": attempts,
        # One command: AWSTOE runs each in a shell of its own.
        "inputs": {"commands": ["\n".join(commands) + "\n"]},
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that people can read the commands."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
