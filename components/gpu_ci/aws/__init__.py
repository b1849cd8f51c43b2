"""GPU capacity on Amazon EKS."""
