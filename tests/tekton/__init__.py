"""The notebook pipelines on Tekton's own webhooks, controllers and listener (`make test-tekton`)."""
