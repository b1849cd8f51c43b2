"""The files of the program that a build step runs on a worker of Cloud Build."""

from ..build_program import BuildProgram

PROGRAM = BuildProgram(
    "gcp/gpu_bridge",
    (
        "arguments",
        "build",
        "failures",
        "follow",
        "ladder",
        "protocol",
        "reaper",
        "settings",
        "slots",
        "storage",
        "workspace",
    ),
    ("capacity",),
)
