// Command dockerfile converts Dockerfiles with BuildKit's own frontend, as `docker build` does before it runs anything.
//
// It needs no daemon and no registry: every base image is replaced by an empty one for the requested platform. It reads
// a JSON list of builds from standard input, and prints a JSON list with one result per build and target:
//
//	[{"file": "images/dev/Dockerfile", "platform": "linux/amd64", "args": {"TORCH": "2.15.0"}}]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"

	"github.com/containerd/platforms"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	digest "github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// Build is one request: a Dockerfile, a platform and the values of its build arguments.
type Build struct {
	File     string            `json:"file"`
	Platform string            `json:"platform"`
	Args     map[string]string `json:"args"`
}

// Result is what the frontend found out about one target of a build.
type Result struct {
	Build
	Target   string    `json:"target"`
	User     string    `json:"user"`
	Bases    []string  `json:"bases"`
	Problems []Problem `json:"problems"`
}

// Problem is an error, or a warning of `docker build --check`. Line is 0 if the frontend names no line.
type Problem struct {
	Rule string `json:"rule"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// emptyBases answers for the registry: every image exists for every platform, has no files, and runs as root.
// The frontend resolves the bases of several stages at the same time.
type emptyBases struct {
	mutex sync.Mutex
	asked map[string]bool
}

func (bases *emptyBases) ResolveImageConfig(
	_ context.Context, reference string, options sourceresolver.Opt,
) (string, digest.Digest, []byte, error) {
	bases.mutex.Lock()
	bases.asked[reference] = true
	bases.mutex.Unlock()
	image := ocispecs.Image{RootFS: ocispecs.RootFS{Type: "layers"}}
	if wanted := options.ImageOpt; wanted != nil && wanted.Platform != nil {
		image.Platform = *wanted.Platform
	}
	image.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	text, err := json.Marshal(image)
	return reference, digest.FromBytes(text), text, err
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "dockerfile: %v\n", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, input io.Reader, output io.Writer) error {
	var builds []Build
	decoder := json.NewDecoder(input)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&builds); err != nil {
		return fmt.Errorf("standard input is not a JSON list of builds: %w", err)
	}
	results := []Result{}
	for _, build := range builds {
		text, err := os.ReadFile(build.File)
		if err != nil {
			return err
		}
		for _, target := range targets(ctx, text) {
			result, err := convert(ctx, build, target, text)
			if err != nil {
				return fmt.Errorf("%s: %w", build.File, err)
			}
			results = append(results, result)
		}
	}
	encoder := json.NewEncoder(output)
	encoder.SetIndent("", " ")
	return encoder.Encode(results)
}

// targets returns the names of the stages. The frontend finds a stage only by its name, and without a name the last one.
// A file that cannot be parsed has one empty target, so that its conversion reports the error.
func targets(ctx context.Context, text []byte) []string {
	list, err := dockerfile2llb.ListTargets(ctx, text)
	if err != nil {
		return []string{""}
	}
	names := []string{}
	for _, target := range list.Targets {
		if target.Name != "" {
			names = append(names, target.Name)
		}
	}
	if count := len(list.Targets); count == 0 || list.Targets[count-1].Name == "" {
		names = append(names, "")
	}
	return names
}

func convert(ctx context.Context, build Build, target string, text []byte) (Result, error) {
	result := Result{Build: build, Target: target, Bases: []string{}, Problems: []Problem{}}
	platform, err := platforms.Parse(build.Platform)
	if err != nil {
		return result, err
	}
	bases := &emptyBases{asked: map[string]bool{}}
	capabilities := pb.Caps.CapSet(pb.Caps.All())
	converted, err := dockerfile2llb.Dockerfile2LLB(ctx, text, dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildArgs:       build.Args,
			Target:          target,
			BuildPlatforms:  []ocispecs.Platform{platform},
			TargetPlatforms: []ocispecs.Platform{platform},
		},
		TargetPlatform: &platform,
		MetaResolver:   bases,
		LLBCaps:        &capabilities,
		SourceMap:      llb.NewSourceMap(nil, build.File, "Dockerfile", text),
		Warn: func(rule, _, _, message string, location []parser.Range) {
			result.Problems = append(result.Problems, Problem{rule, firstLine(location), message})
		},
	})
	if err == nil {
		// Marshalling resolves what the conversion left for later, such as mounts from other stages.
		_, err = converted.State.Marshal(ctx, llb.Platform(platform))
	}
	if err != nil {
		result.Problems = append(result.Problems, problemOf(err))
	} else {
		result.User = converted.Image.Config.User
	}
	for base := range bases.asked {
		result.Bases = append(result.Bases, base)
	}
	sort.Strings(result.Bases)
	return result, nil
}

func problemOf(err error) Problem {
	var located *parser.LocationError
	if errors.As(err, &located) && len(located.Locations) > 0 {
		return Problem{"error", firstLine(located.Locations[0]), err.Error()}
	}
	return Problem{"error", 0, err.Error()}
}

func firstLine(location []parser.Range) int {
	if len(location) == 0 {
		return 0
	}
	return location[0].Start.Line
}
