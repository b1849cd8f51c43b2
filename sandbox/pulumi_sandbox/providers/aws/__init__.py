"""The emulated AWS.

provider.py implements the hooks of a cloud. Inputs are checked by AWS's schemas (schema.py, with types.toml)
and by rules.py. eks/api.py serves the calls of the EKS API that programs make directly.
"""
