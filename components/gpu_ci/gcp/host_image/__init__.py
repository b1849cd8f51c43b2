"""The build of a host image: a builder machine, an image of its disk, and a check of the image on a machine with a GPU.

Cloud Build runs `python -m gpu_ci.gcp.host_image build` and `check` (__main__.py). It has no pydantic and no pulumi, so
its modules import neither.
"""
