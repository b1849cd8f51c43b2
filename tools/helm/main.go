// Command helm renders charts with the packages of Helm that `helm template` uses, many in one process.
//
// Standard input has one release as JSON on each line: {"chart": file, "name": …, "namespace": …, "values": {…}}.
// Standard output has one line for each release: {"manifests": [YAML, …]}, or {"error": message}.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

type release struct {
	Chart     string         `json:"chart"`
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	Values    map[string]any `json:"values"`
}

func main() {
	releases, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked release
		if err := releases.Decode(&asked); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fail(err)
		}
		manifests, err := render(asked)
		answer := map[string]any{"manifests": manifests}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			fail(err)
		}
	}
}

// render returns the manifests of a release, in the order in which Helm installs them.
func render(asked release) ([]string, error) {
	chart, err := loader.Load(asked.Chart)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: asked.Name, Namespace: asked.Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, asked.Values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	delete(files, chart.Name()+"/templates/NOTES.txt")
	_, sorted, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	manifests := make([]string, 0, len(sorted))
	for _, one := range sorted {
		manifests = append(manifests, one.Content)
	}
	return manifests, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
