"""Runs one command of a build in Cloud Build, instead of a runner: `gpu-ci-role: build` in the machine's metadata.

The step of the build and this machine exchange objects of a Cloud Storage bucket. Only root reads and writes them, so
the command needs no credentials of the machine. gpu_ci/gcp/gpu_bridge/protocol.py describes the objects.
"""
