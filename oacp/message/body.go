package message

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// bodyField is a field that the body of a message may or must have (OACP message types).
type bodyField struct {
	key      string
	form     form
	optional bool
}

// form is what a value must be.
type form struct {
	text  string // the warning for a value that is not
	isMet func(*yaml.Node) bool
}

var (
	textForm    = form{"must be text", func(n *yaml.Node) bool { return !isNestedNode(n) }}
	integerForm = form{"must be a whole number", func(n *yaml.Node) bool { return !isNestedNode(n) && isAllDigits(n.Value) }}
	listForm    = form{"must be a list", func(n *yaml.Node) bool { return n.Kind == yaml.SequenceNode }}
)

func newChoiceForm(words ...string) form {
	return form{"must be one of: " + strings.Join(words, ", "), func(n *yaml.Node) bool {
		return !isNestedNode(n) && slices.Contains(words, n.Value)
	}}
}

// bodyFields lists the fields of a body by the type of its message. Bodies of other types are
// free, or Validate checks them.
var bodyFields = map[string][]bodyField{
	"follow_up": {
		{key: "source_type", form: newChoiceForm("review", "task", "deploy", "incident", "other")},
		{key: "source_ref", form: textForm},
		{key: "risk_tier", form: newChoiceForm("P2", "P3")},
		{key: "summary", form: textForm},
		{key: "next_action", form: textForm},
		{key: "owner", form: textForm},
	},
	"review_request": {
		{key: "pr", form: textForm},
		{key: "branch", form: textForm},
		{key: "diff_summary", form: textForm},
		{key: "max_turns_reviewer", form: integerForm, optional: true},
		{key: "max_runtime_s_reviewer", form: integerForm, optional: true},
	},
	"review_feedback": {
		{key: "findings_packet", form: textForm},
		{key: "round", form: integerForm},
		{key: "blocking_count", form: integerForm},
	},
	"review_addressed": {
		{key: "commit_sha", form: textForm},
		{key: "changes_summary", form: textForm},
		{key: "round", form: integerForm},
		{key: "touched_files", form: listForm},
		{key: "addressed_finding_ids", form: listForm},
	},
	"review_lgtm": {
		{key: "quality_gate_result", form: newChoiceForm("pass", "fail")},
		{key: "merge_ready", form: newChoiceForm("true", "false")},
		{key: "nits", form: listForm, optional: true},
	},
}

// ValidateBody checks the body of a follow_up or review_* message against the specification (OACP
// message types, "Body schema"), which the reference tool does not do. It returns warnings, or nil
// if there are none. The body is text that has YAML.
func (m Message) ValidateBody() []string {
	rules := bodyFields[m.Type]
	if rules == nil {
		return nil
	}
	root, err := loadYAMLText([]byte(m.Body))
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return []string{fmt.Sprintf("%s body: not a mapping: write lines like '%s: …'", m.Type, rules[0].key)}
	}
	var lines []string
	for _, r := range rules {
		switch n := FindYAMLMember(root, r.key); {
		case n == nil || !isNestedNode(n) && stripPythonSpace(n.Value) == "" || isNestedNode(n) && len(n.Content) == 0:
			if !r.optional {
				lines = append(lines, fmt.Sprintf("%s body: missing required field '%s'", m.Type, r.key))
			}
		default:
			if !r.form.isMet(n) {
				lines = append(lines, fmt.Sprintf("%s body: field '%s' %s", m.Type, r.key, r.form.text))
			}
		}
	}
	return lines
}
