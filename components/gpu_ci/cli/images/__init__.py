"""`gpu-ci images`: the software in the images of pools."""
