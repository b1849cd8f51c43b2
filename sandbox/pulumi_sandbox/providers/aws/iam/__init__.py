"""IAM: policy documents and managed policies."""
