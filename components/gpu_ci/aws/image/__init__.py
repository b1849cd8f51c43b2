"""The arguments, documents and roles of a pipeline that builds images of EKS nodes."""
