"""Runs `pulumi-sandbox` for `python -m pulumi_sandbox`."""

from pulumi_sandbox.cli.main import main

if __name__ == "__main__":
    main()
