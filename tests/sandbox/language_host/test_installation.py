"""The language host installs a program's dependencies."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from pulumi.runtime.proto import language_pb2 as lp

from tests.sandbox.language_host.hosts import Stub, environment_with, info


@pytest.mark.slow
def test_dependencies_are_installed_into_a_new_environment(host: Stub, program: Path) -> None:
    """The package is in a folder next to the program, so nothing is downloaded."""
    package = program / "local package"
    package.mkdir()
    (package / "backend.py").write_text(BACKEND)
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "beside"\nversion = "1.5"\n'
    )
    (program / "requirements.txt").write_text("./local package\n")
    request = lp.InstallDependenciesRequest(directory=str(program), info=info(program, virtualenv="new venv"))
    answers = list(host.InstallDependencies(request))
    shown = b"".join(answer.stdout for answer in answers).decode()
    assert shown.startswith(f"Creating the virtual environment {program}/new venv...\n")
    assert shown.endswith("Finished installing dependencies\n")
    assert list((program / "new venv").rglob("beside.py")) != []
    list(host.InstallDependencies(request))  # a second time changes nothing and fails nothing


# The smallest build backend there is (PEP 517): it writes a wheel of one module.
BACKEND = """
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "beside-1.5-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("beside.py", "")
        wheel.writestr("beside-1.5.dist-info/METADATA", "Metadata-Version: 2.1\\nName: beside\\nVersion: 1.5\\n")
        wheel.writestr("beside-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("beside-1.5.dist-info/RECORD", "")
    return name
"""


def test_a_failed_installation_shows_why(host: Stub, program: Path) -> None:
    environment_with(program / "venv")
    (program / "venv" / "bin" / "python").unlink()
    (program / "venv" / "bin" / "python").write_text("#!/bin/sh\necho 'no such package: nope' >&2\nexit 4\n")
    (program / "venv" / "bin" / "python").chmod(0o755)
    (program / "requirements.txt").write_text("nope\n")
    call = host.InstallDependencies(lp.InstallDependenciesRequest(info=info(program, virtualenv="venv")))
    shown: list[bytes] = []
    with pytest.raises(grpc.RpcError) as caught:
        shown.extend(answer.stderr for answer in call)
    assert "-r requirements.txt` exited with non-zero exit code" in caught.value.details()
    assert b"".join(shown) != b""
