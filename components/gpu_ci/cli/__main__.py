"""Starts the command `gpu-ci` for `python -m gpu_ci.cli`."""

from __future__ import annotations

from gpu_ci.cli.main import main

if __name__ == "__main__":
    main()
