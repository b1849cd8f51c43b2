"""The commands of the group `gpu-ci manager`, and `gpu-ci explain` and `gpu-ci job`."""
