"""`gpu-ci github-app`: create the GitHub Apps of a stack, and store their keys."""
