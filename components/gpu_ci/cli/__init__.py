"""The command `gpu-ci`: reads the catalog and checks stack files, without the Pulumi engine or a cloud account."""
