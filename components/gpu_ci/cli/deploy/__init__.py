"""`gpu-ci deploy`: the verdict on a canary, and what traffic can detect."""
