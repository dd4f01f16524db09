package envoy

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// toYAML prints a message as Envoy's documentation writes it: snake_case names,
// in the order of the message's definition. Equal messages give equal bytes.
func toYAML(m proto.Message) ([]byte, error) {
	node, err := toNode(m)
	if err != nil {
		return nil, err
	}
	return encode(node)
}

// toNode reads the message's JSON as YAML, which it is, to keep its order; only
// its braces, brackets and quotes must go.
func toNode(m proto.Message) (*yaml.Node, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("print %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("print %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	node := document.Content[0]
	plain(node)
	return node, nil
}

func plain(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plain(child)
	}
}

func encode(node *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return nil, fmt.Errorf("print yaml: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("print yaml: %w", err)
	}
	return out.Bytes(), nil
}
