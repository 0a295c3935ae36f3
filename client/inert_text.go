package client

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// makeInert returns a peer's text without what could make a model, or the program around it,
// take it for something else than text: control characters and those that hide or reorder
// others are removed, tags of agent programs are broken. It returns how many of each there
// were. It takes time in proportion to len(s).
func makeInert(s string) (text string, removed, broken int) {
	text, removed = removeHidden(s)
	text, broken = breakTags(text) // after it: without what hides in them, texts may be tags
	return text, removed, broken
}

// removeHidden removes control characters, and characters that nobody sees or that reorder
// others, and counts them. Line breaks of other systems become line feeds, bytes that are not
// UTF-8 U+FFFD.
func removeHidden(s string) (text string, removed int) {
	if isPrintableASCII(s) {
		return s, 0
	}
	var b strings.Builder
	b.Grow(len(s))
	previous := '\n' // what b ends with
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		switch {
		case r == '\r' && strings.HasPrefix(s[i:], "\n"):
			continue
		case r == '\r', r == nextLine, r == lineSeparator, r == paragraphSeparator:
			r = '\n'
		case !isKept(r, previous):
			removed++
			continue
		}
		b.WriteRune(r)
		previous = r
	}
	return b.String(), removed
}

const (
	nextLine           = '\u0085'
	lineSeparator      = '\u2028'
	paragraphSeparator = '\u2029'
	textSelector       = '\ufe0e' // what it follows is shown as text
	emojiSelector      = '\ufe0f' // or as an emoji

	lastMongolianSelector = '\u180f' // letters of that script have forms, and the first of all selectors
)

// isKept reports whether the text keeps r, which follows the character previous. One joiner or one
// variation selector may follow a character that it can change. Any other changes nothing that is
// seen, and can carry hidden text.
func isKept(r, previous rune) bool {
	switch {
	case r == '\n', r == '\t':
		return true
	case r < utf8.RuneSelf:
		return r >= ' ' && r != '\x7f'
	case isJoiner(r):
		return previous >= utf8.RuneSelf && !isJoiner(previous)
	case r == textSelector, r == emojiSelector:
		return previous >= utf8.RuneSelf && !isJoiner(previous) && !isSelector(previous) ||
			r == emojiSelector && strings.ContainsRune("#*0123456789", previous)
	case isSelector(r):
		return r <= lastMongolianSelector && unicode.Is(unicode.Mongolian, previous) && !isSelector(previous)
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // format characters, but seen
		return true
	}
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
}

func isJoiner(r rune) bool { return r == zeroWidthJoiner || r == zeroWidthNonJoiner }

func isSelector(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// breakTags writes "&lt;" instead of "<" where a tag of an agent program begins or ends, also for a
// wide or small form of "<". It writes "&#91;" instead of "[" where a token of a model's format
// begins. broken is how often it did either.
func breakTags(s string) (text string, broken int) {
	var b strings.Builder
	from := 0
	for i := 0; i < len(s); {
		next := strings.IndexAny(s[i:], "<[\uff1c\ufe64")
		if next < 0 {
			break
		}
		i += next
		bracket, n := utf8.DecodeRuneInString(s[i:])
		inert := "&lt;"
		if bracket == '[' {
			inert = "&#91;"
		}
		if bracket == '[' && isBracketToken(s[i+n:]) || bracket != '[' && isProgramTag(s[i+n:]) {
			broken++
			b.WriteString(s[from:i])
			b.WriteString(inert)
			from = i + n
		}
		i += n
	}
	if broken == 0 {
		return s, 0
	}
	b.WriteString(s[from:])
	return b.String(), broken
}

// isProgramTag reports whether what follows a "<" makes it a tag of an agent program or of a
// model's format. It does not look beyond the next "<", nor far into a name.
func isProgramTag(s string) bool {
	if isModelToken(s) {
		return true
	}
	s = strings.TrimLeftFunc(s, func(r rune) bool {
		return r == '/' || r == '\\' || r == '\uff0f' || unicode.IsSpace(r)
	})
	name := make([]byte, 0, maxTagName)
	for _, r := range s {
		c := foldNameRune(r)
		if c == 0 || len(name) == maxTagName {
			break
		}
		name = append(name, c)
	}
	return isProgramTagName(string(name))
}

// foldNameRune returns a character of a tag's name as a program may read it that ignores case or
// takes wide letters for narrow ones. That is a lower-case letter, a digit, a hyphen or a colon.
// It returns 0 if the name ends there.
func foldNameRune(r rune) byte {
	if r >= '\uff01' && r <= '\uff5e' { // the wide forms of ASCII
		r -= '\uff01' - '!'
	}
	for folded := unicode.SimpleFold(r); r >= utf8.RuneSelf && folded != r; folded = unicode.SimpleFold(folded) {
		if folded < utf8.RuneSelf { // such as the long s
			r = folded
		}
	}
	switch {
	case r >= 'A' && r <= 'Z':
		return byte(r) + 'a' - 'A'
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == ':':
		return byte(r)
	case r == '_', unicode.Is(unicode.Dash, r):
		return '-'
	}
	return 0
}

// maxTagName is how much of a tag's name is looked at, in bytes.
const maxTagName = 64

// programTags has the tags of agent programs that are one word, in lower case.
var programTags = map[string]bool{
	"channel": true, "instructions": true, "invoke": true, "permissions": true, "skill": true, "sys": true, "system": true,
	"think": true, "thinking": true, "tick": true,
}

// programTagParts has what the names of other tags of agent programs have in them, in lower
// case with hyphens: names differ between versions, and these stay.
var programTagParts = []string{
	// Claude Code
	"-message", "-notification", "-reminder", "bash-input", "bash-stderr", "bash-stdout", "command-args", "command-contents", "command-name",
	"fetched-web-content", "function-call", "function-result", "ide-opened-file", "ide-selection", "local-command", "mcp-", "memory-input",
	"new-diagnostics", "persisted-output", "prompt-submit-hook", "session-start-hook", "tool-result", "tool-use", "antml:",
	// Codex
	"-context", "-instructions", "agent-mode", "collaboration-mode", "external-", "hook-prompt", "model-switch", "personality-spec",
	"realtime-conversation", "token-budget", "turn-aborted", "user-action", "user-shell-command",
	// OpenCode, Gemini CLI and formats of models
	"state-snapshot", "end-of-turn", "start-of-turn", "tool-call", "tool-response",
}

func isProgramTagName(name string) bool {
	return programTags[name] || slices.ContainsFunc(programTagParts, func(part string) bool { return strings.Contains(name, part) })
}

// angleTokens and bracketTokens have tokens of models' formats, without the "<" or "[" that they
// begin with. Some servers of models obey such a token wherever it stands, but only in this spelling.
var (
	angleTokens   = []string{"s>", "/s>", "bos>", "eos>", "pad>", "unk>"}
	bracketTokens = []string{
		"INST]", "/INST]", "SYSTEM_PROMPT]", "/SYSTEM_PROMPT]", "AVAILABLE_TOOLS]", "/AVAILABLE_TOOLS]", "TOOL_CALLS]",
		"TOOL_CONTENT]", "TOOL_RESULTS]", "/TOOL_RESULTS]", "THINK]", "/THINK]", "gMASK]",
	}
)

// isBracketToken reports whether s continues a "[" as a token of a model's format.
func isBracketToken(s string) bool { return hasOneOfPrefixes(s, bracketTokens) }

func hasOneOfPrefixes(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// isModelToken reports whether s continues a "<" as a token of a model's format, like </s> or
// <|im_start|>; the bar and the last bracket may be wide ones.
func isModelToken(s string) bool {
	if hasOneOfPrefixes(s, angleTokens) {
		return true
	}
	var ok bool
	if s, ok = cutBar(s); !ok {
		return false
	}
	for i := 0; i < len(s) && i < maxTagName; i++ {
		if rest, ok := cutBar(s[i:]); ok {
			return i > 0 && (strings.HasPrefix(rest, ">") || strings.HasPrefix(rest, "\uff1e"))
		}
		if strings.IndexByte(" \t\n<>", s[i]) >= 0 {
			return false
		}
	}
	return false
}

func cutBar(s string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, "|"); !ok {
		rest, ok = strings.CutPrefix(s, "\uff5c")
	}
	return rest, ok
}
