"""`pulumi-sandbox`: the real Pulumi engine with emulated clouds instead of gcp, aws, github and kubernetes.

Terms of this package:

- engine: the Pulumi CLI. It runs a program through a language host, and calls providers for the program's resources.
- provider: a plugin of the engine for one package, such as `gcp`. The providers here make no call to a real cloud.
- cloud: the emulation of one vendor in a provider, a subclass of `providers.cloud.Cloud`.
- world: the emulated cloud state, one SQLite file. Each resource is a row.
- state: what the engine stored about one stack. An *orphan* is a difference between the world and the states.
- workspace: the folder `.sandbox/` of a project, with the world, the states and the engine's home.
- fault: an error that the user plants in the world (`pulumi-sandbox world break`). It takes effect in a later call.
- token: the type of a resource or function, such as `gcp:compute/instance:Instance`.
- guest: the startup script of a VM, or the program of a container. It really runs, as a process of this computer.

Folders: cli/ (commands), engine/ (finds or builds the CLI), language_host/ (runs Python programs), world/ (the emulated
cloud state), providers/ (the emulated clouds).
"""
