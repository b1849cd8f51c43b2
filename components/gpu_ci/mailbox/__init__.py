"""The mailbox: the objects of a bucket through which the runner manager and a machine exchange messages.

It is for vendors without a metadata server that the manager can write. The manager puts what the machine needs for its
boot into the bucket, and gives the machine signed URLs. docs/adr/0048-the-mailbox.md has the reasons.
"""
