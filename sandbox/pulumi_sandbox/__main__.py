"""Lets `python -m pulumi_sandbox` do what `pulumi-sandbox` does."""

from pulumi_sandbox.cli.main import main

if __name__ == "__main__":
    main()
