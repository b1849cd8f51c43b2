"""The kind eks-runners: GPU runners on EKS."""
