"""`gpu-ci verify`: runs the read-only steps of the first-run checklist on a real project, cluster or GPU machine."""
