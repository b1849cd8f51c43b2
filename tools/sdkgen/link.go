package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/blang/semver"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/proto"
)

func link(ctx context.Context, chosen language, input io.Reader) (proto.Message, error) {
	request := &pulumirpc.LinkRequest{}
	if err := read(input, request); err != nil {
		return nil, err
	}
	client, err := schema.NewLoaderClient(request.LoaderTarget)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	packages := map[string]string{}
	lines := strings.Builder{}
	for _, dependency := range request.Packages {
		reference, err := schema.LoadPackageReferenceV2(ctx, schema.NewCachedLoader(client), descriptor(dependency.Package))
		if err != nil {
			return nil, err
		}
		pkg, err := reference.Definition()
		if err != nil {
			return nil, err
		}
		if err := pkg.ImportLanguages(map[string]schema.Language{chosen.name: chosen.importer}); err != nil {
			return nil, err
		}
		name, line := chosen.names(pkg)
		packages[name] = dependency.Path
		fmt.Fprintf(&lines, "  %s\n", line)
	}
	if err := chosen.link(ctx, request.Info, packages); err != nil {
		return nil, fmt.Errorf("linking packages: %w", err)
	}
	return &pulumirpc.LinkResponse{
		ImportInstructions: fmt.Sprintf("You can import the SDK in your %s code with:\n\n%s", chosen.title, lines.String()),
	}, nil
}

func descriptor(dependency *pulumirpc.PackageDependency) *schema.PackageDescriptor {
	found := &schema.PackageDescriptor{Name: dependency.Name, DownloadURL: dependency.Server}
	if version, err := semver.ParseTolerant(dependency.Version); err == nil {
		found.Version = &version
	}
	if parameter := dependency.Parameterization; parameter != nil {
		found.Parameterization = &schema.ParameterizationDescriptor{Name: parameter.Name, Value: parameter.Value}
		if version, err := semver.ParseTolerant(parameter.Version); err == nil {
			found.Parameterization.Version = version
		}
	}
	return found
}
