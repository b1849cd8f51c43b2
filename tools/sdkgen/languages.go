package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pulumi/pulumi/pkg/v3/codegen/cgstrings"
	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/python"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
	"github.com/pulumi/pulumi/sdk/v3/nodejs/npm"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"github.com/pulumi/pulumi/sdk/v3/python/toolchain"
)

// language is what differs between the languages. The calls and texts are those of Pulumi's own hosts
// (pulumi/pulumi v3.259.0, sdk/python/cmd/pulumi-language-python/main.go and
// sdk/nodejs/cmd/pulumi-language-nodejs/main.go).
type language struct {
	name     string
	title    string
	importer schema.Language
	generate func(*schema.Package, *pulumirpc.GeneratePackageRequest, schema.ReferenceLoader) (map[string][]byte, error)
	// names returns the name to install and the line that imports the package.
	names func(*schema.Package) (string, string)
	// link writes the packages (name to path) into the program's list of dependencies.
	link func(context.Context, *pulumirpc.ProgramInfo, map[string]string) error
}

var languages = map[string]language{
	"python": {
		name:     "python",
		title:    "Python",
		importer: python.Importer,
		generate: func(
			pkg *schema.Package, request *pulumirpc.GeneratePackageRequest, loader schema.ReferenceLoader,
		) (map[string][]byte, error) {
			return python.GeneratePackage("pulumi-language-python", pkg, request.ExtraFiles, loader)
		},
		names: pythonNames,
		link:  linkPython,
	},
	"nodejs": {
		name:     "nodejs",
		title:    "TypeScript",
		importer: nodejs.Importer,
		generate: func(
			pkg *schema.Package, request *pulumirpc.GeneratePackageRequest, loader schema.ReferenceLoader,
		) (map[string][]byte, error) {
			return nodejs.GeneratePackage(
				"pulumi-language-nodejs", pkg, request.ExtraFiles, request.LocalDependencies, request.Local, loader)
		},
		names: nodejsNames,
		link:  linkNodejs,
	},
}

func pythonNames(pkg *schema.Package) (string, string) {
	name, alias := python.PyPack(pkg.Namespace, pkg.Name), strings.ReplaceAll(pkg.Name, "-", "_")
	if info, ok := pkg.Language["python"].(python.PackageInfo); ok && info.PackageName != "" {
		name, alias = info.PackageName, info.PackageName
	}
	return name, fmt.Sprintf("import %s as %s", name, alias)
}

func nodejsNames(pkg *schema.Package) (string, string) {
	name := "@pulumi/" + pkg.Name
	if pkg.Namespace != "" {
		name = "@" + pkg.Namespace + "/" + pkg.Name
	}
	if info, ok := pkg.Language["nodejs"].(nodejs.NodePackageInfo); ok && info.PackageName != "" {
		name = info.PackageName
	}
	return name, fmt.Sprintf("import * as %s from %q;", cgstrings.Camel(pkg.Name), name)
}

func linkPython(ctx context.Context, info *pulumirpc.ProgramInfo, packages map[string]string) error {
	options := toolchain.PythonOptions{
		Root: info.RootDirectory, ProgramDir: info.ProgramDirectory, Toolchain: toolchain.Auto,
	}
	fields := info.GetOptions().GetFields()
	options.Virtualenv = fields["virtualenv"].GetStringValue()
	switch fields["toolchain"].GetStringValue() {
	case "pip":
		options.Toolchain = toolchain.Pip
	case "poetry":
		options.Toolchain = toolchain.Poetry
	case "uv":
		options.Toolchain = toolchain.Uv
	}
	tools, err := toolchain.ResolveToolchain(options)
	if err != nil {
		return err
	}
	return tools.LinkPackages(ctx, packages)
}

func linkNodejs(ctx context.Context, info *pulumirpc.ProgramInfo, packages map[string]string) error {
	chosen := npm.PackageManagerType(info.GetOptions().GetFields()["packagemanager"].GetStringValue())
	manager, err := npm.ResolvePackageManager(chosen, info.ProgramDirectory)
	if err != nil {
		return err
	}
	for name, path := range packages {
		if err := manager.Link(ctx, info.ProgramDirectory, name, path); err != nil {
			return err
		}
	}
	return nil
}
