"""The program of a build step: `python -m gpu_ci.gcp.gpu_bridge run ... -- COMMAND` and `reap`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from ..gate.compute_api import ApiError, GoogleCompute
from ..gate.waiting import cancellation
from . import arguments
from .build import BridgeBuild, refused
from .failures import BridgeError
from .reaper import GoogleBuilds, reap
from .storage import GoogleStorage


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of this program, and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    cancel = cancellation()
    try:
        return _reap(given) if given[:1] == ["reap"] else _run(given, cancel)
    except BridgeError as error:
        failure = error
    except ApiError as error:
        failure = refused(error)
    except Exception as error:
        # Without this, the exit code would be 1, as of a command that fails.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}, line {where.lineno}"
        failure = BridgeError("crashed", f"{type(error).__name__} in {place}: {error}")
    _log(str(failure))
    return failure.code


def _run(given: Sequence[str], cancel: Event) -> int:
    settings, options = arguments.parse(given, os.environ, _settings_text)
    storage, api = GoogleStorage(settings.bucket), GoogleCompute()
    build = BridgeBuild(settings, options, api, storage, _log, _write, cancel)
    try:
        return build.run()
    finally:
        # Cloud Build keeps this file with the build (discovery document cloudbuild v1, Results.buildStepOutputs).
        with contextlib.suppress(OSError):
            if build.machines and (folder := os.environ.get("BUILDER_OUTPUT")):
                Path(folder, "output").write_text(json.dumps(build.machines))


def _reap(given: Sequence[str]) -> int:
    options = arguments.parser().parse_args(given)
    reaped = reap(GoogleCompute(), GoogleBuilds(), options.project, time.time(), _log, options.bridge)
    _log(f"deleted {len(reaped)} {'machine' if len(reaped) == 1 else 'machines'}")
    return 0


def _settings_text(bucket: str, name: str) -> str:
    sink = io.BytesIO()
    try:
        with contextlib.closing(GoogleStorage(bucket)) as storage:
            entry = storage.find(name)
            if entry is None:
                raise ValueError("does not exist")
            storage.read(entry, sink)
        return sink.getvalue().decode(errors="replace")
    except ApiError as error:
        raise ValueError(f"cannot be read ({error})") from None


def _log(text: str) -> None:
    """Print a line of the step's own to standard error. The output of the command is on standard output."""
    sys.stderr.write(f"gpu-ci: {text}\n")
    sys.stderr.flush()


def _write(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
