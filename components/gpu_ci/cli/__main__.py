"""`python -m gpu_ci.cli` is `gpu-ci`."""

from __future__ import annotations

from gpu_ci.cli.main import main

if __name__ == "__main__":
    main()
