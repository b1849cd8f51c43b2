"""`gpu-ci new-project`: the files of a repository for GPU code, from a copier template."""
