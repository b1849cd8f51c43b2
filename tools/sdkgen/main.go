// Command sdkgen writes Pulumi SDKs, and links them to programs, with Pulumi's own code.
//
// It reads the request of a language host as JSON from standard input, and prints the response as JSON. The messages are
// those of Pulumi's protocol, so a host that is written in another language passes them on unchanged.
//
//	sdkgen generate python < GeneratePackageRequest.json
//	sdkgen link nodejs < LinkRequest.json
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const usage = "expected: generate or link, and a language: python or nodejs"

func main() {
	response, err := run(context.Background(), os.Args[1:], os.Stdin)
	if err == nil {
		var text []byte
		if text, err = protojson.Marshal(response); err == nil {
			fmt.Println(string(text))
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sdkgen: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, input io.Reader) (proto.Message, error) {
	if len(arguments) != 2 {
		return nil, fmt.Errorf("got %d arguments\n  %s", len(arguments), usage)
	}
	language, known := languages[arguments[1]]
	if !known {
		return nil, fmt.Errorf("unknown language %q\n  %s", arguments[1], usage)
	}
	switch arguments[0] {
	case "generate":
		return generate(language, input)
	case "link":
		return link(ctx, language, input)
	default:
		return nil, fmt.Errorf("unknown command %q\n  %s", arguments[0], usage)
	}
}

// read parses the request. A newer SDK of the host may send fields that this version does not have.
func read(input io.Reader, request proto.Message) error {
	text, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, request); err != nil {
		return fmt.Errorf("standard input is not a %s: %w", request.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}
