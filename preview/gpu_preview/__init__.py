"""Previews what a pull request changes in its stacks, without a cloud account (`gpu-ci preview`)."""
