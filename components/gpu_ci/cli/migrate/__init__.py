"""`gpu-ci migrate`: draft a stack file from the Terraform state of other runners."""
