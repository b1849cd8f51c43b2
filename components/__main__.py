"""The entry point of the Pulumi plugin. Pulumi starts it because of `runtime: python` in PulumiPlugin.yaml."""

from gpu_ci.plugin import main

main()
