"""The entry point of gpu-ci's policy pack, which the engine runs."""

from gpu_ci_policies.pack import serve

serve()
