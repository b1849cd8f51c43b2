// Tekton's own programs, pinned: tools/tekton.py builds them. A new version: change the two lines of tektoncd, and run
// `go mod tidy` here. Version 1.15 of pipelines has support until 2027-07-31.
module gpu-ci/tools/tekton

go 1.26.0

tool (
	github.com/tektoncd/pipeline/cmd/controller
	github.com/tektoncd/pipeline/cmd/entrypoint
	github.com/tektoncd/pipeline/cmd/webhook
	github.com/tektoncd/triggers/cmd/controller
	github.com/tektoncd/triggers/cmd/eventlistenersink
	github.com/tektoncd/triggers/cmd/interceptors
	github.com/tektoncd/triggers/cmd/webhook
)

require (
	github.com/tektoncd/pipeline v1.15.1
	github.com/tektoncd/triggers v0.37.0
)
