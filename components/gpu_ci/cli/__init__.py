"""The command `gpu-ci`: reads the catalog and checks stack files, without the Pulumi engine or a cloud account."""

RESULTS_FROM_2 = ("deploy", "drift", "preview", "train")
"""Commands whose exit codes 2 and higher are results. Their errors exit with 1."""
