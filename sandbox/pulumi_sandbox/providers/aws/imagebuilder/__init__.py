"""EC2 Image Builder: documents, references between resources, builds of pipelines, and the deletion of old images."""
