package routing

import "strings"

// plainChat is anthropicAsChat over decoded JSON.
func plainChat(body map[string]any) (messages []any, tools any, ok bool) {
	var c plainTurns
	switch s := body["system"].(type) {
	case string:
		c.system = s
	case []any:
		parts, ok := plainTexts(s)
		if !ok {
			return nil, nil, false
		}
		c.system = joinSystem(parts)
	default:
		return nil, nil, false
	}
	list, ok := body["messages"].([]any)
	for _, m := range list {
		message, _ := m.(map[string]any)
		ok = ok && c.add(message)
	}
	if !ok {
		return nil, nil, false
	}
	messages = []any{}
	if c.system != "" {
		messages = append(messages, map[string]any{"role": "system", "content": c.system})
	}
	for i, role := range c.roles {
		messages = append(messages, map[string]any{"role": role, "content": plainContent(c.parts[i])})
	}
	tools, ok = plainTools(body["tools"])
	return messages, tools, ok
}

type plainTurns struct {
	system string
	roles  []string
	parts  [][]string
}

func (c *plainTurns) add(message map[string]any) bool {
	role, _ := message["role"].(string)
	var parts []string
	if content, there := message["content"]; there {
		var ok bool
		if parts, ok = plainTexts(content); !ok {
			return false
		}
	}
	last := len(c.roles) - 1
	switch text := joinSystem(parts); {
	case role == "ctx" || role == "msg":
		role = "user"
	case role == "user" || role == "assistant":
	case role != "system":
		return false
	case text == "":
		return true
	case last < 0:
		c.system = plainParagraphs(c.system, text)
		return true
	case c.roles[last] == "user":
		before := c.parts[last]
		before[len(before)-1] = plainParagraphs(before[len(before)-1], text)
		return true
	default:
		return false
	}
	if len(parts) > 0 {
		c.roles, c.parts = append(c.roles, role), append(c.parts, parts)
	}
	return len(parts) > 0 || role == "user"
}

func plainParagraphs(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}

func plainTexts(content any) (parts []string, ok bool) {
	if text, is := content.(string); is {
		return []string{text}, true
	}
	blocks, is := content.([]any)
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		text, isText := block["text"].(string)
		if _, there := block["text"]; block["type"] != "text" || there && !isText {
			return nil, false
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return parts, is
}

func joinSystem(parts []string) (all string) {
	for _, p := range parts {
		if !strings.HasPrefix(p, "x-anthropic-billing-header") {
			all += p
		}
	}
	return all
}

func plainContent(parts []string) any {
	if len(parts) == 1 {
		return parts[0]
	}
	var blocks []any
	for _, p := range parts {
		blocks = append(blocks, map[string]any{"type": "text", "text": p})
	}
	return blocks
}

func plainTools(list any) (any, bool) {
	if list == nil {
		return nil, true
	}
	tools, ok := list.([]any)
	converted := []any{}
	for _, t := range tools {
		tool, _ := t.(map[string]any)
		name, named := tool["name"]
		schema, isObject := tool["input_schema"].(map[string]any)
		if kind := tool["type"]; !named || !isObject || kind != nil && kind != "custom" || tool["defer_loading"] == true {
			return nil, false
		}
		if _, typed := schema["type"]; !typed {
			schema["type"] = "object"
		}
		function := map[string]any{"name": name, "parameters": schema}
		if description, there := tool["description"]; there {
			function["description"] = description
		}
		converted = append(converted, map[string]any{"type": "function", "function": function})
	}
	return converted, ok
}
