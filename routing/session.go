package routing

import (
	"errors"

	"mooring/affinity"
)

// family is how one kind of client names its sessions: the header of the
// session itself comes from the configuration, its companions from here.
// Sources: Dynamo's frontend and the agents that it knows, as collected in
// facts/dynamo-affinity.md 7.1.
type family struct {
	child  string // overrides the session id; the session header is then the root's
	parent string
}

var families = map[string]family{
	"x-dynamo-session-id":           {parent: "x-dynamo-parent-session-id"},
	"x-claude-code-session-id":      {parent: "x-claude-code-parent-agent-id", child: "x-claude-code-agent-id"},
	"thread-id":                     {parent: "x-codex-parent-thread-id"},
	"x-deepseek-harness-session-id": {parent: "x-deepseek-harness-parent-session-id"},
	"x-session-id":                  {parent: "x-parent-session-id"},
}

// identity is who a request says it belongs to.
type identity struct {
	own string // the session's own id; "" for no session
	key string // what it binds under: own, or the group key of its parent
}

// readIdentity finds the session in the first of headers that carries one. Once
// a header has matched, the companions of the others are ignored.
func readIdentity(headers []string, values func(string) []string) (identity, error) {
	for _, name := range headers {
		id, err := sessionID(name, values)
		if err != nil {
			return identity{}, err
		}
		if id == "" {
			continue
		}
		return families[name].identify(id, values)
	}
	return identity{}, nil
}

func (f family) identify(id string, values func(string) []string) (identity, error) {
	root := ""
	if f.child != "" {
		child, err := sessionID(f.child, values)
		if err != nil {
			return identity{}, err
		}
		if child == "" {
			return identity{own: id, key: id}, nil // a parent without a child id says nothing
		}
		id, root = child, id
	}
	parent := root
	if f.parent != "" {
		p, err := sessionID(f.parent, values)
		if err != nil {
			return identity{}, err
		}
		if p != "" {
			parent = p
		}
	}
	if parent == "" || parent == id {
		return identity{own: id, key: id}, nil
	}
	return identity{own: id, key: affinity.GroupKey(parent)}, nil
}

func sessionID(name string, values func(string) []string) (string, error) {
	id, err := affinity.SessionID(values(name))
	if err != nil {
		if errors.Is(err, affinity.ErrInvalidSession) {
			return "", &Error{Kind: BadRequest, Reason: Invalid, Message: "header " + name + ": a session id is 1 to 256 bytes of UTF-8", Err: err}
		}
		return "", err
	}
	return id, nil
}
