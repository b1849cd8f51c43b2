"""The kind ec2-runners: GPU runners on Amazon EC2, without a cluster."""
