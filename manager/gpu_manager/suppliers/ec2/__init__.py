"""EC2 in AWS: the manager's machines in the regions of its pools. Their channel is a mailbox in a bucket of S3."""
