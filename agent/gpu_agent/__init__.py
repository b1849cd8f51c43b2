"""The boot agent of a runner's machine: one smoke check, one registration, one job, and one reported end.

Terms of this package:

- machine: a Compute Engine VM of a pool. It runs one job, and is then switched off and deleted.
- smoke check: the check of the machine's GPUs by gpu_smoke. Its result is the verdict, pass or fail.
- gate: the Pulumi resource that boots one check machine per template, and fails the deployment unless the check passes.
- rehearsal: the registration without its last step, which only a check machine does.
- runner: GitHub's program for jobs. It runs as the user gpu-runner, isolated from the machine's identity.
- registration: a runner that GitHub knows. The agent registers it as a GitHub App, or the runner manager does.
- identity: the access token of the machine's service account, which the metadata server gives to any process.
- end: the reason for which a machine is switched off (outcomes.py). The supervisor reports it (supervisor.py).
"""
