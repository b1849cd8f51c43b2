"""What the engine runs: gpu-ci's policy pack."""

from gpu_ci_policies.pack import serve

serve()
