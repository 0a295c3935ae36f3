package message

import (
	"regexp"
	"strings"
)

// lines is the body of a handoff, which the reference reads line by line, with rules
// that look like YAML's but are not.
type lines []string

func (f *findings) handoff(body string) {
	const prefix = "handoff body: "
	text := lines(splitLines(body))
	agents := make(map[string]string)
	for _, key := range []string{"source_agent", "target_agent", "intent"} {
		at, value := text.find(key, 0, 0, len(text))
		switch {
		case at < 0:
			f.add(prefix+"missing required field '%s'", key)
		case !filled(value):
			f.add(prefix+"field '%s' must be non-empty", key)
		default:
			agents[key] = unquote(value)
		}
	}
	source, target := agents["source_agent"], agents["target_agent"]
	for _, key := range []string{"source_agent", "target_agent"} {
		if name := agents[key]; name != "" && !LegalAgent(name) {
			f.add(prefix+"field '%s' must match %s", key, agentPattern)
		}
	}
	if source != "" && source == target {
		f.add(prefix + "field 'target_agent' must differ from 'source_agent'")
	}
	for _, key := range []string{"artifacts_to_review", "definition_of_done"} {
		at, value := text.find(key, 0, 0, len(text))
		switch {
		case at < 0:
			f.add(prefix+"missing required field '%s'", key)
		case value != "" && !filled(value):
			f.add(prefix+"field '%s' must contain at least one entry", key)
		case value == "" && !text.hasItem(at, 0):
			f.add(prefix+"field '%s' must contain at least one list item", key)
		}
	}
	bundle, _ := text.find("context_bundle", 0, 0, len(text))
	if bundle < 0 {
		f.add(prefix + "missing required field 'context_bundle'")
		return
	}
	end := text.blockEnd(bundle, 0)
	for _, key := range []string{"files_touched", "decisions_made", "blockers_hit", "suggested_next_steps"} {
		at, value := text.find(key, 2, bundle+1, end)
		switch {
		case at < 0:
			f.add(prefix+"missing required context_bundle field '%s'", key)
		case value != "" && !filled(value):
			f.add(prefix+"context_bundle '%s' must contain at least one entry", key)
		case value == "" && !text.hasItem(at, 2):
			f.add(prefix+"context_bundle '%s' must contain at least one list item", key)
		}
	}
}

var pullRequest = regexp.MustCompile(`^#?[0-9]+$`)

func (f *findings) handoffComplete(body string) {
	const prefix = "handoff_complete body: "
	text := lines(splitLines(body))
	values := make(map[string]string)
	for _, key := range []string{"issue", "pr", "branch", "tests_run", "next_owner"} {
		_, value := text.find(key, 0, 0, len(text))
		if !filled(value) {
			f.add(prefix+"missing required field '%s'", key)
			continue
		}
		values[key] = unquote(value)
	}
	if pr := values["pr"]; pr != "" && !pullRequest.MatchString(pr) {
		f.add(prefix + "field 'pr' must be numeric (e.g., 83 or #83)")
	}
	if owner := values["next_owner"]; owner != "" && !LegalAgent(owner) {
		f.add(prefix+"field 'next_owner' must match %s", agentPattern)
	}
}

// find returns the first line in [from, to) with key behind exactly indent spaces, and
// what follows its colon; -1 if there is none.
func (l lines) find(key string, indent, from, to int) (at int, value string) {
	start := strings.Repeat(" ", indent) + key
	for i := from; i < to; i++ {
		rest, ok := strings.CutPrefix(l[i], start)
		if !ok {
			continue
		}
		if rest, ok = strings.CutPrefix(strings.TrimLeftFunc(rest, space), ":"); ok {
			return i, strip(rest)
		}
	}
	return -1, ""
}

// blockEnd is the line after the block that line at heads.
func (l lines) blockEnd(at, indent int) int {
	for i := at + 1; i < len(l); i++ {
		if strip(l[i]) != "" && depth(l[i]) <= indent {
			return i
		}
	}
	return len(l)
}

// hasItem tells whether a list item with text stands in the block that line at heads.
func (l lines) hasItem(at, indent int) bool {
	for _, line := range l[at+1 : l.blockEnd(at, indent)] {
		item, ok := strings.CutPrefix(strings.TrimLeftFunc(line, space), "- ")
		if ok && strip(item) != "" {
			return true
		}
	}
	return false
}

func depth(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// filled tells whether a value is more than YAML's words for nothing.
func filled(value string) bool {
	switch unquote(value) {
	case "", "[]", "{}", "null", "~":
		return false
	}
	return true
}

func unquote(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}
