"""The Pulumi program of a stack file: reads the file, creates its resources, and exports their outputs.

The entry point of a project calls `deploy`:

    from gpu_ci.program.deploy import deploy

    deploy()
"""
