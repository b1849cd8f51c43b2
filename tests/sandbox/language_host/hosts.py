"""A language host to ask, and programs to ask it about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from google.protobuf import struct_pb2
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import language_pb2_grpc

Stub = language_pb2_grpc.LanguageRuntimeStub


def info(folder: Path, **options: str) -> lp.ProgramInfo:
    settings = struct_pb2.Struct()
    settings.update(options)
    return lp.ProgramInfo(root_directory=str(folder), program_directory=str(folder), entry_point=".", options=settings)


def environment_with(folder: Path, *distributions: tuple[str, str, str]) -> Path:
    """A virtual environment without pip, holding (name, version, what it requires) as installed distributions."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    for name, version, requires in distributions:
        metadata = packages / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
    return packages


def script(path: Path, body: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path
