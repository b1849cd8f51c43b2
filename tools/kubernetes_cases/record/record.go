// Package record writes the objects that validation tests check, and whether the validation accepts them.
package record

import (
	"encoding/json"
	"os"
	"regexp"
	"runtime"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
)

var test = regexp.MustCompile(`\.([Tt]est\w+)`)

type row struct {
	Test     string            `json:"test"`
	Accepted bool              `json:"accepted"`
	Objects  []json.RawMessage `json:"objects"`
}

// Case writes one call of a validation function to the file that CASES names: the old object, if any, and the new one.
func Case(problems field.ErrorList, objects ...kruntime.Object) {
	found := row{Test: caller(), Accepted: len(problems) == 0}
	for _, one := range objects {
		found.Objects = append(found.Objects, encoded(one))
	}
	line, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(os.Getenv("CASES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

func encoded(object kruntime.Object) json.RawMessage {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	version := schema.GroupVersion{Group: kinds[0].Group, Version: "v1"}
	text, err := kruntime.Encode(legacyscheme.Codecs.LegacyCodec(version), object)
	if err != nil {
		panic(err)
	}
	return text
}

func caller() string {
	stack := make([]uintptr, 64)
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack)])
	for {
		frame, more := frames.Next()
		if found := test.FindStringSubmatch(frame.Function); found != nil {
			return found[1]
		}
		if !more {
			return ""
		}
	}
}
