"""The steps of cloudbuild.yaml that run the program, which is two objects of the bridge's bucket, and permissions.

A build downloads the program and installs the libraries of requirements.lock by their hashes, into a volume that its
steps share. The workspace stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from gpu_common import google_permissions

from ... import versions
from .. import build_program
from ..build_program import PIP_INSTALL, BuildProgram

_MODULES = ("arguments", "build", "failures", "follow", "protocol", "reaper", "storage", "workspace")
PROGRAM = BuildProgram("gcp/gpu_bridge", _MODULES)
"""The files of the program."""
SETTINGS_OBJECT = "bridge.json"
ARCHIVE, LOCK = "gpu_bridge.zip", "requirements.lock"
FOLDER = "/gpu-ci"
_VOLUMES = [{"name": "gpu-ci", "path": FOLDER}]
# A module of a zip file is found like one of a folder (docs.python.org/3/library/zipimport.html).
_ENVIRONMENT = [
    f"PYTHONPATH={FOLDER}/{ARCHIVE}:{FOLDER}/packages",
    "PYTHONUNBUFFERED=1",
    "BUILD_ID=$BUILD_ID",
    "LOCATION=$LOCATION",
]
CALLS: Mapping[str, tuple[str, ...]] = {
    # Steps start, watch and delete machines as the smoke check does.
    **google_permissions.CALLS,
    # An insert also requires the right to use the machines' service account, which is a separate grant.
    "compute.instances.insert": google_permissions.INSERT,
    "compute.zoneOperations.list": ("compute.zoneOperations.list",),
    # For the reaper.
    "cloudbuild.projects.locations.builds.get": ("cloudbuild.builds.get",),
}
"""Permissions of builds in the project of the machines."""

READ: Mapping[str, tuple[str, ...]] = {
    "storage.objects.get": ("storage.objects.get",),
    # gcloud lists the objects of a pattern such as gs://BUCKET/program/*.
    "storage.objects.list": ("storage.objects.list",),
}
"""Permissions of builds on the objects READABLE."""

# To replace an existing object also requires the permission to delete it
# (cloud.google.com/storage/docs/access-control/iam-json).
CHANGE: Mapping[str, tuple[str, ...]] = {
    "storage.objects.insert": ("storage.objects.create", "storage.objects.delete"),
    "storage.objects.delete": ("storage.objects.delete",),
}
"""Permissions of builds on the objects below CHANGED. They cannot change the settings or the program."""

# Programs of release 0.1.0 write slots/. Builds may use them until the bucket is deleted.
CHANGED = ("sources/", "slots/", "builds/", "requests/")
READABLE = (SETTINGS_OBJECT, "program/", "sources/", "slots/", "builds/")
"""The objects that builds read. They do not read requests, because a request contains the token of its build."""
WRITTEN_BY_MACHINES, READ_BY_MACHINES = ("builds/",), ("sources/", "builds/", "requests/")
"""protocol.py lists the objects. Programs of release 0.1.0 write their request below builds/."""
EXPIRING = ("builds/", "sources/", "slots/", "requests/")
"""The objects that the bucket deletes after a day."""


def below(bucket: str, *prefixes: str, lists: str = "") -> str:
    """Return the condition of a grant that is valid for objects with these prefixes, and for lists of one prefix, only.

    Source: cloud.google.com/iam/docs/conditions-resource-attributes, "Resource name", for Cloud Storage. The resource
    of a list is the bucket (conditions-attribute-reference, "objectListPrefix").
    """
    terms = [f'resource.name.startsWith("projects/_/buckets/{bucket}/objects/{prefix}")' for prefix in prefixes]
    if lists:
        terms.append(f'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("{lists}")')
    return " || ".join(terms)


def folder() -> str:
    """Return the folder of the bucket for this version of the program. Builds keep what they downloaded."""
    return f"program/{PROGRAM.digest()}"


def code() -> dict[str, str]:
    """Return the text of each file of the archive by its path."""
    return {path: text for path, text in PROGRAM.files().items() if path != build_program.LOCK}


def prepare_steps(bucket: str, program: str = "") -> list[dict[str, Any]]:
    """Return the steps that a build needs once: the download and the installation of the program.

    `program` is its folder in the bucket; by default the folder of this version.
    """
    return [
        {
            "id": "gpu-ci-program",
            "name": versions.GCLOUD_BUILDER,
            "entrypoint": "gcloud",
            "args": ["storage", "cp", f"gs://{bucket}/{program or folder()}/*", f"{FOLDER}/"],
            "volumes": _VOLUMES,
        },
        {
            "id": "gpu-ci-libraries",
            "name": versions.PYTHON_IMAGE,
            "entrypoint": "python",
            "args": [*PIP_INSTALL, "--target", f"{FOLDER}/packages", "--requirement", f"{FOLDER}/{LOCK}"],
            "volumes": _VOLUMES,
        },
    ]


def step(name: str, arguments: list[str]) -> dict[str, Any]:
    """Return a step that runs the program with these arguments."""
    return {
        "id": name,
        "name": versions.PYTHON_IMAGE,
        "entrypoint": "python",
        "args": ["-m", "gpu_ci.gcp.gpu_bridge", *arguments],
        "env": _ENVIRONMENT,
        "volumes": _VOLUMES,
    }


def run_step(bucket: str, name: str, options: list[str], command: list[str]) -> dict[str, Any]:
    """Return a step that runs a command on a machine of the bridge."""
    settings = f"gs://{bucket}/{SETTINGS_OBJECT}"
    return step(name, ["run", "--settings", settings, *options, "--", *command])


def example(bucket: str, account: str, topic: str, command_sec: int, build_sec: int) -> str:
    """Return a cloudbuild.yaml with one command, for the output of the component.

    `topic` hears of the build's end. `command_sec` is the time limit of the command, and `build_sec` that of the build.
    """
    test = run_step(bucket, "gpu-test", ["--timeout", str(command_sec)], ["nvidia-smi"])
    build = {
        "steps": [*prepare_steps(bucket), test],
        "serviceAccount": account,
        "timeout": f"{build_sec}s",
        "options": {"logging": "CLOUD_LOGGING_ONLY", "pubsubTopic": topic},
    }
    return _TRUST + yaml.dump(build, Dumper=_Dumper, sort_keys=False, width=1000)


_TRUST = """\
# Builds with this service account can read and change each other's results. Use one pool for each level of trust, such
# as one for pull requests and one for releases.
"""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class names it
        return True
