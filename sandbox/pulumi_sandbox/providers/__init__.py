"""The providers of the sandbox, which the engine runs as the plugins of gcp, aws, kubernetes and github.

server.py receives the engine's calls. lifecycle.py does the operation of each call. cloud.py declares the hooks that
a folder per vendor implements. sdk/ reads the types of resources from the Pulumi SDKs. machines/ runs VMs.
"""
