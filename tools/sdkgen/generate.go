package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/proto"
)

func generate(chosen language, input io.Reader) (proto.Message, error) {
	request := &pulumirpc.GeneratePackageRequest{}
	if err := read(input, request); err != nil {
		return nil, err
	}
	if request.Directory == "" || request.LoaderTarget == "" {
		return nil, errors.New("the request needs a directory and the address of a schema loader")
	}
	// The engine's loader answers for the packages that the schema refers to.
	client, err := schema.NewLoaderClient(request.LoaderTarget)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	loader := schema.NewCachedLoader(client)
	var spec schema.PackageSpec
	if err := json.Unmarshal([]byte(request.Schema), &spec); err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	pkg, diagnostics, err := schema.BindSpec(spec, loader, schema.ValidationOptions{AllowDanglingReferences: true})
	if err != nil {
		return nil, err
	}
	response := &pulumirpc.GeneratePackageResponse{Diagnostics: plugin.HclDiagnosticsToRPCDiagnostics(diagnostics)}
	if diagnostics.HasErrors() {
		return response, nil
	}
	files, err := chosen.generate(pkg, request, loader)
	if err != nil {
		return nil, err
	}
	return response, writeAll(request.Directory, files)
}

func writeAll(directory string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
