"""The rules of gpu-ci's policy pack, as plain Python: nothing here but pack.py knows pulumi_policy."""
