"""The rules of gpu-ci's policy pack in plain Python. Only pack.py uses pulumi_policy."""
