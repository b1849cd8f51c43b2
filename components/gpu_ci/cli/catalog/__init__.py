"""`gpu-ci catalog`: one file a command."""
