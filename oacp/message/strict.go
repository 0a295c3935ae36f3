package message

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rule is a row of a body table (OACP message types).
type rule struct {
	key      string
	form     form
	optional bool
}

// form is what a value in a body must look like; it returns what is wrong.
type form func(*yaml.Node) string

func anyText(n *yaml.Node) string {
	if nested(n) {
		return "must be text"
	}
	return ""
}

func integer(n *yaml.Node) string {
	if nested(n) || !digits(n.Value) {
		return "must be a whole number"
	}
	return ""
}

func list(n *yaml.Node) string {
	if n.Kind != yaml.SequenceNode {
		return "must be a list"
	}
	return ""
}

func oneOf(words ...string) form {
	return func(n *yaml.Node) string {
		if nested(n) || !slices.Contains(words, n.Value) {
			return "must be one of: " + strings.Join(words, ", ")
		}
		return ""
	}
}

// bodyRules is the table of a type, nil for those whose body is free or checked by Validate.
func bodyRules(typ string) []rule {
	switch typ {
	case "follow_up":
		return []rule{
			{key: "source_type", form: oneOf("review", "task", "deploy", "incident", "other")},
			{key: "source_ref", form: anyText},
			{key: "risk_tier", form: oneOf("P2", "P3")},
			{key: "summary", form: anyText},
			{key: "next_action", form: anyText},
			{key: "owner", form: anyText},
		}
	case "review_request":
		return []rule{
			{key: "pr", form: anyText},
			{key: "branch", form: anyText},
			{key: "diff_summary", form: anyText},
			{key: "max_turns_reviewer", form: integer, optional: true},
			{key: "max_runtime_s_reviewer", form: integer, optional: true},
		}
	case "review_feedback":
		return []rule{
			{key: "findings_packet", form: anyText},
			{key: "round", form: integer},
			{key: "blocking_count", form: integer},
		}
	case "review_addressed":
		return []rule{
			{key: "commit_sha", form: anyText},
			{key: "changes_summary", form: anyText},
			{key: "round", form: integer},
			{key: "touched_files", form: list},
			{key: "addressed_finding_ids", form: list},
		}
	case "review_lgtm":
		return []rule{
			{key: "quality_gate_result", form: oneOf("pass", "fail")},
			{key: "merge_ready", form: oneOf("true", "false")},
			{key: "nits", form: list, optional: true},
		}
	}
	return nil
}

// Strict returns what the specification asks of the body of follow_up and review_*
// messages (OACP message types, "Body schema") and nobody enforces: warnings, nil if
// there are none. The body is YAML inside of text.
func (m Message) Strict() []string {
	rules := bodyRules(m.Type)
	if rules == nil {
		return nil
	}
	root, err := load([]byte(m.Body))
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return []string{fmt.Sprintf("%s body: not a mapping: write lines like '%s: …'", m.Type, rules[0].key)}
	}
	var lines []string
	for _, r := range rules {
		switch n := Member(root, r.key); {
		case n == nil || !nested(n) && strip(n.Value) == "" || nested(n) && len(n.Content) == 0:
			if !r.optional {
				lines = append(lines, fmt.Sprintf("%s body: missing required field '%s'", m.Type, r.key))
			}
		default:
			if wrong := r.form(n); wrong != "" {
				lines = append(lines, fmt.Sprintf("%s body: field '%s' %s", m.Type, r.key, wrong))
			}
		}
	}
	return lines
}
