"""Where `gpu-ci` begins. Each command is a module of its own, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

MISSING = """\
gpu-ci: the package {name} is not installed
  expected: what the command line needs on top of the components
  hint: pip install 'gpu-ci[cli]'
"""


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(words: list[str]) -> int:
    """0 when all is fine, 1 when problems were found, 2 for a question that cannot be asked."""
    try:
        return _run(words)
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich", "yaml"):
            raise
        sys.stderr.write(MISSING.format(name=error.name))
        return 2
    except KeyboardInterrupt:
        return 130


def _run(words: list[str]) -> int:
    import click

    from gpu_ci.cli.commands import gpu_ci
    from gpu_ci.cli.output import tell

    try:
        # Without its standalone mode click returns the code of an Exit instead of raising it.
        code = gpu_ci.main(args=words or ["--help"], prog_name="gpu-ci", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        tell(error)
        return error.exit_code
    except click.Abort:
        return 130
    return code if isinstance(code, int) else 0
