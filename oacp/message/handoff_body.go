package message

import (
	"regexp"
	"slices"
	"strings"
)

// handoffLines holds the body of a handoff. The reference reads it line by line, with rules that
// look like YAML's but are not.
type handoffLines []string

func (f *findings) checkHandoff(body string) {
	const prefix = "handoff body: "
	text := handoffLines(splitPythonLines(body))
	values := make(map[string]string)
	for _, key := range []string{"source_agent", "target_agent", "intent"} {
		at, value := text.findKey(key, 0, 0, len(text))
		switch {
		case at < 0:
			f.addFinding(prefix+"missing required field '%s'", key)
		case !isFilledValue(value):
			f.addFinding(prefix+"field '%s' must be non-empty", key)
		default:
			values[key] = unquoteValue(value)
		}
	}
	for _, key := range []string{"source_agent", "target_agent"} {
		if name := values[key]; name != "" && !IsLegalAgentName(name) {
			f.addFinding(prefix+"field '%s' must match %s", key, agentPattern)
		}
	}
	if source := values["source_agent"]; source != "" && source == values["target_agent"] {
		f.addFinding(prefix + "field 'target_agent' must differ from 'source_agent'")
	}
	checkEntries := func(indent, from, to int, missing, empty string, keys ...string) {
		for _, key := range keys {
			at, value := text.findKey(key, indent, from, to)
			switch {
			case at < 0:
				f.addFinding(prefix+missing, key)
			case value != "" && !isFilledValue(value):
				f.addFinding(prefix+empty+" must contain at least one entry", key)
			case value == "" && !text.hasListItem(at, indent):
				f.addFinding(prefix+empty+" must contain at least one list item", key)
			}
		}
	}
	checkEntries(0, 0, len(text), "missing required field '%s'", "field '%s'", "artifacts_to_review", "definition_of_done")
	bundle, _ := text.findKey("context_bundle", 0, 0, len(text))
	if bundle < 0 {
		f.addFinding(prefix + "missing required field 'context_bundle'")
		return
	}
	checkEntries(2, bundle+1, text.findBlockEnd(bundle, 0), "missing required context_bundle field '%s'", "context_bundle '%s'",
		"files_touched", "decisions_made", "blockers_hit", "suggested_next_steps")
}

var pullRequest = regexp.MustCompile(`^#?[0-9]+$`)

func (f *findings) checkHandoffComplete(body string) {
	const prefix = "handoff_complete body: "
	text := handoffLines(splitPythonLines(body))
	values := make(map[string]string)
	for _, key := range []string{"issue", "pr", "branch", "tests_run", "next_owner"} {
		_, value := text.findKey(key, 0, 0, len(text))
		if !isFilledValue(value) {
			f.addFinding(prefix+"missing required field '%s'", key)
			continue
		}
		values[key] = unquoteValue(value)
	}
	if pr := values["pr"]; pr != "" && !pullRequest.MatchString(pr) {
		f.addFinding(prefix + "field 'pr' must be numeric (e.g., 83 or #83)")
	}
	if owner := values["next_owner"]; owner != "" && !IsLegalAgentName(owner) {
		f.addFinding(prefix+"field 'next_owner' must match %s", agentPattern)
	}
}

// findKey returns the first line in [from, to) that has key behind exactly indent spaces,
// and the text behind its colon; at is -1 if there is none.
func (l handoffLines) findKey(key string, indent, from, to int) (at int, value string) {
	start := strings.Repeat(" ", indent) + key
	for i := from; i < to; i++ {
		rest, ok := strings.CutPrefix(l[i], start)
		if !ok {
			continue
		}
		if rest, ok = strings.CutPrefix(strings.TrimLeftFunc(rest, isPythonSpace), ":"); ok {
			return i, stripPythonSpace(rest)
		}
	}
	return -1, ""
}

// findBlockEnd returns the line after the block that line at heads.
func (l handoffLines) findBlockEnd(at, indent int) int {
	for i := at + 1; i < len(l); i++ {
		if stripPythonSpace(l[i]) != "" && countIndent(l[i]) <= indent {
			return i
		}
	}
	return len(l)
}

// hasListItem reports whether a list item with text stands in the block that line at heads.
func (l handoffLines) hasListItem(at, indent int) bool {
	for _, line := range l[at+1 : l.findBlockEnd(at, indent)] {
		item, ok := strings.CutPrefix(strings.TrimLeftFunc(line, isPythonSpace), "- ")
		if ok && stripPythonSpace(item) != "" {
			return true
		}
	}
	return false
}

func countIndent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// isFilledValue reports whether a value is more than YAML's words for nothing.
func isFilledValue(value string) bool {
	return !slices.Contains([]string{"", "[]", "{}", "null", "~"}, unquoteValue(value))
}

func unquoteValue(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}
