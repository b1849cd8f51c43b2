"""`gpu-ci init`: write the files of a new repository that deploys pools."""
