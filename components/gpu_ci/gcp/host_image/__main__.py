"""The steps of the build of a host image, which Cloud Build runs: `python -m gpu_ci.gcp.host_image build|check`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from ..gate.compute_api import ApiError
from ..gate.waiting import cancellation
from .api import GoogleImages
from .build import BuildError, ImageBuild, parse, refused


def main(argv: Sequence[str] | None = None) -> int:
    """Run one step, and return its exit code: 0, 1 for a build without a candidate, or 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m gpu_ci.gcp.host_image", description=__doc__)
    parser.add_argument("step", choices=("build", "check"), help="build: create the image; check: check it, and prune")
    parser.add_argument("--settings", required=True, metavar="JSON", help="the settings of the pipeline")
    arguments = parser.parse_args(argv)
    try:
        settings = parse(arguments.settings)
    except ValueError as error:
        parser.error(str(error))
    cancel = cancellation()

    def code_of(action: Callable[[ImageBuild], object]) -> int:
        try:
            with closing(GoogleImages()) as api:
                action(ImageBuild(settings, api, _log, time.time(), cancel))
        except (ApiError, BuildError) as error:
            text = refused(error) if isinstance(error, ApiError) else str(error)
            sys.stderr.write(f"gpu-ci: {text}\n")
            return 1
        return 0

    if arguments.step == "build":
        return code_of(ImageBuild.build)
    # After a failed check, too: images of failed builds must not accumulate.
    return max(code_of(ImageBuild.check), code_of(ImageBuild.prune))


def _log(text: str) -> None:
    sys.stdout.write(f"gpu-ci: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
