"""A step of Cloud Build that runs one command on a machine with a GPU: `python -m gpu_ci.gcp.gpu_bridge run`.

The step packs the workspace, starts a machine (a Compute Engine VM) from the template of the bridge, prints the output
of the command, and ends with its exit code. protocol.py describes what step and machine exchange. The other end is
agent/gpu_agent/build. The program has no pydantic and no pulumi.
"""
