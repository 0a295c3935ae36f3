package message

import (
	"slices"
	"strings"
)

// handoffLines holds the lines of the body of a handoff. The reference reads it by rules that look
// like YAML's but are not.
type handoffLines []string

// readValue returns the value of a key at the margin, without quotes. It returns "" for a key
// that is missing or has no value.
func (l handoffLines) readValue(key string) string {
	if _, value := l.findKey(key, 0, 0, len(l)); isFilledValue(value) {
		return unquoteValue(value)
	}
	return ""
}

func (f *findings) checkHandoff(body string) {
	text := handoffLines(splitPythonLines(body))
	for _, key := range []string{"source_agent", "target_agent", "intent"} {
		switch value := text.readValue(key); {
		case value == "":
			f.addFinding("handoff body: field '%s' is missing or empty", key)
		case key != "intent" && !IsLegalAgentName(value):
			f.addFinding("handoff body: field '%s' %s", key, nameText)
		}
	}
	if source := text.readValue("source_agent"); source != "" && source == text.readValue("target_agent") {
		f.addFinding("handoff body: field 'target_agent' must be another agent than 'source_agent'")
	}
	checkEntries := func(indent, from, to int, keys ...string) {
		for _, key := range keys {
			if !text.hasEntry(key, indent, from, to) {
				f.addFinding("handoff body: field '%s' must have an entry", key)
			}
		}
	}
	checkEntries(0, 0, len(text), "artifacts_to_review", "definition_of_done")
	bundle, _ := text.findKey("context_bundle", 0, 0, len(text))
	if bundle < 0 {
		f.addFinding("handoff body: field 'context_bundle' is missing")
		return
	}
	checkEntries(2, bundle+1, text.findBlockEnd(bundle, 0), "files_touched", "decisions_made", "blockers_hit", "suggested_next_steps")
}

func (f *findings) checkHandoffComplete(body string) {
	text := handoffLines(splitPythonLines(body))
	for _, key := range []string{"issue", "pr", "branch", "tests_run", "next_owner"} {
		switch value := text.readValue(key); {
		case value == "":
			f.addFinding("handoff_complete body: field '%s' is missing or empty", key)
		case key == "pr" && !isAllDigits(strings.TrimPrefix(value, "#")):
			f.addFinding("handoff_complete body: field 'pr' must be a number, like 83 or #83")
		case key == "next_owner" && !IsLegalAgentName(value):
			f.addFinding("handoff_complete body: field 'next_owner' %s", nameText)
		}
	}
}

// hasEntry reports whether the first line in [from, to) that has key behind exactly indent
// spaces has a value, or heads a list that has an item.
func (l handoffLines) hasEntry(key string, indent, from, to int) bool {
	at, value := l.findKey(key, indent, from, to)
	if value != "" {
		return isFilledValue(value)
	}
	return at >= 0 && l.hasListItem(at, indent)
}

// findKey returns the index of the first line in [from, to) that has key after exactly indent
// spaces, or -1, and the text after its colon.
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

// hasListItem reports whether the block that line at heads has a list item with text.
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

// isFilledValue reports whether a value is something else than YAML's words for nothing.
func isFilledValue(value string) bool {
	return !slices.Contains([]string{"", "[]", "{}", "null", "~"}, unquoteValue(value))
}

func unquoteValue(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}
