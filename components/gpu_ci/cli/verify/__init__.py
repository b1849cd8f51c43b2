"""`gpu-ci verify`: the read-only steps of the first-run checklist, against a real project, cluster or GPU machine."""
