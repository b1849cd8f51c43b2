"""Machines without a metadata server that the runner manager can write: EC2 instances, and rented hosts.

The boot script (components/gpu_ci/mailbox/boot.sh) fetches the boot document: the configuration, and signed URLs of the
machine's objects in a bucket.
"""
