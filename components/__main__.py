"""The plugin's entry point, as `runtime: python` of PulumiPlugin.yaml starts it."""

from gpu_ci.plugin import main

main()
