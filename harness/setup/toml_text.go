package setup

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tomlText is a TOML text that is edited by position: what an edit does not concern stays as
// it is, byte for byte. Reading it finds tables, keys and the ends of values.
type tomlText struct {
	text  []byte
	items []tomlItem
}

// tomlItem is the head of a table, or a key with its value.
type tomlItem struct {
	path   []string // whole: with that of the table
	lines  span     // from the beginning of its first line to behind its last one
	isHead bool
	isList bool // the head of one table of a list: [[name]]
	value  span // of a key
}

// newTOMLText reads a text.
func newTOMLText(text []byte) (*tomlText, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	d := &tomlText{text: text}
	return d, d.read()
}

// errorAt returns an error that names a place in the text, and shows nothing of it.
func (d *tomlText) errorAt(at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+bytes.Count(d.text[:min(at, len(d.text))], []byte{'\n'}), fmt.Sprintf(format, args...))
}

func (d *tomlText) read() error {
	var table []string
	seen := make(map[string]bool)
	counts := make(map[string]int) // of the tables of each list
	key := func(path []string) string {
		var b strings.Builder
		for i := range path {
			fmt.Fprintf(&b, "%q", path[i])
			if n := counts[strings.Join(path[:i+1], "\x00")]; n > 0 {
				fmt.Fprintf(&b, "#%d", n)
			}
		}
		return b.String()
	}
	for at := len(d.text) - len(bytes.TrimPrefix(d.text, []byte("\ufeff"))); at < len(d.text); {
		start := at
		at = d.skipBlanks(at)
		item := tomlItem{lines: span{start: start}}
		var err error
		switch {
		case at == len(d.text) || d.text[at] == '#' || d.text[at] == '\n' || d.text[at] == '\r':
			if at, err = d.skipLineEnd(at); err != nil {
				return err
			}
			continue
		case d.text[at] == '[':
			item.isHead = true
			item.isList = bytes.HasPrefix(d.text[at:], []byte("[["))
			brackets := map[bool]int{true: 2, false: 1}[item.isList]
			if item.path, at, err = d.readKey(at + brackets); err != nil {
				return err
			}
			if !bytes.HasPrefix(d.text[at:], []byte("]]")[:brackets]) {
				return d.errorAt(at, "the head of a table that does not end")
			}
			at += brackets
			table = item.path
			if item.isList {
				counts[strings.Join(table, "\x00")]++
			}
		default:
			var name []string
			if name, at, err = d.readKey(at); err != nil {
				return err
			}
			item.path = slices.Concat(table, name)
			if at == len(d.text) || d.text[at] != '=' {
				return d.errorAt(at, "expected an equals sign")
			}
			item.value.start = d.skipBlanks(at + 1)
			if at, err = d.skipValue(item.value.start, 0); err != nil {
				return err
			}
			item.value.end = at
		}
		if name := key(item.path); seen[name] && !item.isList {
			return d.errorAt(start, "a name that stands there twice")
		} else {
			seen[name] = true
		}
		if at, err = d.skipLineEnd(at); err != nil {
			return err
		}
		item.lines.end = at
		d.items = append(d.items, item)
	}
	return nil
}

// skipBlanks returns the index of the first byte from at on that is no space or tab.
func (d *tomlText) skipBlanks(at int) int {
	for at < len(d.text) && (d.text[at] == ' ' || d.text[at] == '\t') {
		at++
	}
	return at
}

// skipLineEnd returns the index of the next line. Only a comment may stand before it.
func (d *tomlText) skipLineEnd(at int) (int, error) {
	at = d.skipBlanks(at)
	if at < len(d.text) && d.text[at] == '#' {
		for at < len(d.text) && d.text[at] != '\n' && !bytes.HasPrefix(d.text[at:], []byte("\r\n")) {
			if c := d.text[at]; c < ' ' && c != '\t' {
				return at, d.errorAt(at, "a control character in a comment")
			}
			at++
		}
	}
	switch {
	case at == len(d.text):
		return at, nil
	case d.text[at] == '\n':
		return at + 1, nil
	case bytes.HasPrefix(d.text[at:], []byte("\r\n")):
		return at + 2, nil
	}
	return at, d.errorAt(at, "expected the end of the line")
}

// skipSpace returns the index of the first byte from at on that is neither white space, nor a
// line break, nor part of a comment.
func (d *tomlText) skipSpace(at int) (int, error) {
	for {
		at = d.skipBlanks(at)
		if at == len(d.text) || d.text[at] != '#' && d.text[at] != '\n' && d.text[at] != '\r' {
			return at, nil
		}
		var err error
		if at, err = d.skipLineEnd(at); err != nil {
			return at, err
		}
	}
}

// readKey reads a key, dotted or not, and returns the index behind it and the blanks there.
func (d *tomlText) readKey(at int) (path []string, end int, err error) {
	for {
		at = d.skipBlanks(at)
		start := at
		switch {
		case at < len(d.text) && (d.text[at] == '"' || d.text[at] == '\''):
			if at, err = d.skipString(at); err != nil {
				return nil, at, err
			}
			name, ok := d.readString(span{start, at})
			if !ok || bytes.HasPrefix(d.text[start:], []byte(`"""`)) || bytes.HasPrefix(d.text[start:], []byte(`'''`)) {
				return nil, at, d.errorAt(start, "expected a name")
			}
			path = append(path, name)
		default:
			for at < len(d.text) && isBareKey(d.text[at]) {
				at++
			}
			if at == start {
				return nil, at, d.errorAt(at, "expected a name")
			}
			path = append(path, string(d.text[start:at]))
		}
		at = d.skipBlanks(at)
		if at == len(d.text) || d.text[at] != '.' {
			return path, at, nil
		}
		at++
	}
}

func isBareKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// scalar matches numbers, truth values, dates and times.
var scalar = regexp.MustCompile(`^(true|false|[+-]?(inf|nan)|0x[0-9A-Fa-f_]+|0o[0-7_]+|0b[01_]+|[+-]?(0|[1-9][0-9_]*)(\.[0-9][0-9_]*)?([eE][+-]?[0-9][0-9_]*)?|` +
	`[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9:.]+([Zz]|[+-][0-9:]+)?)?|[0-9]{2}:[0-9:.]+)$`)

// skipValue checks the value at text[at:] and returns the index behind it.
func (d *tomlText) skipValue(at, depth int) (int, error) {
	switch {
	case at == len(d.text):
		return at, d.errorAt(at, "the text ends in the middle")
	case depth > maxJSONDepth:
		return at, d.errorAt(at, "more than %d lists and tables in each other", maxJSONDepth)
	case d.text[at] == '"' || d.text[at] == '\'':
		return d.skipString(at)
	case d.text[at] == '[' || d.text[at] == '{':
		_, end, err := d.readInline(at, depth)
		return end, err
	}
	end := at
	for end < len(d.text) && (isBareKey(d.text[end]) || strings.IndexByte("+.:", d.text[end]) >= 0 ||
		d.text[end] == ' ' && end == at+10 && end+1 < len(d.text) && d.text[end+1] >= '0' && d.text[end+1] <= '9') {
		end++
	}
	if !scalar.Match(d.text[at:end]) {
		return at, d.errorAt(at, "expected a value")
	}
	return end, nil
}

// readInline reads the list or the inline table at text[at:] and returns its entries and the
// index behind it. The names of the entries of a table are whole, with dots in between.
func (d *tomlText) readInline(at, depth int) (c container, end int, err error) {
	c.open = at
	isTable := d.text[at] == '{'
	closing := map[bool]byte{true: '}', false: ']'}[isTable]
	at++
	for {
		if at, err = d.skipSpace(at); err != nil {
			return c, at, err
		}
		if at < len(d.text) && d.text[at] == closing {
			break
		}
		e := entry{start: at, comma: -1}
		if isTable {
			var path []string
			if path, at, err = d.readKey(at); err != nil {
				return c, at, err
			}
			e.name = strings.Join(path, ".")
			if at == len(d.text) || d.text[at] != '=' {
				return c, at, d.errorAt(at, "expected an equals sign")
			}
			at = d.skipBlanks(at + 1)
		}
		e.value.start = at
		if at, err = d.skipValue(at, depth+1); err != nil {
			return c, at, err
		}
		e.value.end = at
		if at, err = d.skipSpace(at); err != nil {
			return c, at, err
		}
		more := at < len(d.text) && d.text[at] == ','
		if more {
			e.comma = at
			at++
		}
		c.entries = append(c.entries, e)
		if !more {
			break
		}
	}
	if at == len(d.text) || d.text[at] != closing {
		return c, at, d.errorAt(at, "expected a comma or %q", closing)
	}
	c.close = at
	return c, at + 1, nil
}

// skipString returns the index behind the string of any of the four forms at text[at:].
func (d *tomlText) skipString(at int) (int, error) {
	quote := d.text[at]
	mark := bytes.Repeat([]byte{quote}, 3)
	long := bytes.HasPrefix(d.text[at:], mark)
	if !long {
		mark = mark[:1]
	}
	for i := at + len(mark); i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '\\' && quote == '"':
			i++
		case bytes.HasPrefix(d.text[i:], mark):
			end := i + len(mark)
			for long && end < i+5 && end < len(d.text) && d.text[end] == quote { // up to two more belong to the text
				end++
			}
			if _, ok := d.readString(span{at, end}); !ok {
				return at, d.errorAt(at, "a string that is not valid")
			}
			return end, nil
		case c == '\n' && !long:
			return at, d.errorAt(at, "a string that does not end on its line")
		case c < ' ' && c != '\t' && c != '\n' && c != '\r':
			return at, d.errorAt(i, "a control character in a string")
		}
	}
	return at, d.errorAt(at, "a string that does not end")
}

// readString returns the string that a value is, and whether it is one.
func (d *tomlText) readString(v span) (string, bool) {
	text := string(d.text[v.start:v.end])
	for _, mark := range []string{`'''`, `"""`, `'`, `"`} {
		inner, ok := strings.CutPrefix(text, mark)
		if !ok || len(inner) < len(mark) {
			continue
		}
		inner = strings.TrimSuffix(inner, mark)
		if len(mark) == 3 {
			inner = strings.TrimPrefix(strings.TrimPrefix(inner, "\r"), "\n")
		}
		if mark[0] == '\'' {
			return inner, true
		}
		return unescapeTOML(inner)
	}
	return "", false
}

// unescapeTOML resolves the escapes of a basic string.
func unescapeTOML(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		short := strings.IndexByte(`btnfre"\`, s[i])
		switch {
		case digits > 0:
			if i+digits >= len(s) {
				return "", false
			}
			r, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(r)) {
				return "", false
			}
			b.WriteRune(rune(r))
			i += digits
		case short >= 0:
			b.WriteByte("\b\t\n\f\r\x1b\"\\"[short])
		case strings.IndexByte(" \t\r\n", s[i]) >= 0: // the line goes on in the next one
			for i+1 < len(s) && strings.IndexByte(" \t\r\n", s[i+1]) >= 0 {
				i++
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// readStrings returns the strings of the list that a value is, and whether it has only these.
func (d *tomlText) readStrings(v span) (list []string, ok bool) {
	if d.text[v.start] != '[' {
		return nil, false
	}
	c, _, _ := d.readInline(v.start, 0)
	ok = true
	for _, e := range c.entries {
		s, isString := d.readString(e.value)
		ok = ok && isString
		list = append(list, s)
	}
	return list, ok
}

// quoteTOML returns a string as TOML.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func formatTOML(value any) string {
	switch value := value.(type) {
	case string:
		return quoteTOML(value)
	case []string:
		words := make([]string, len(value))
		for i, s := range value {
			words[i] = quoteTOML(s)
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// find returns the index of the key or of the head of the table that path names, -1 if there is
// none.
func (d *tomlText) find(isHead bool, path ...string) int {
	return slices.IndexFunc(d.items, func(i tomlItem) bool {
		return i.isHead == isHead && !i.isList && slices.Equal(i.path, path)
	})
}

// isBelow reports whether a path begins with another.
func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// has reports whether there is anything below path.
func (d *tomlText) has(path ...string) bool {
	return slices.ContainsFunc(d.items, func(i tomlItem) bool { return isBelow(i.path, path) })
}

// isEqual reports whether a value of the text means the same as one that setup would write.
func (d *tomlText) isEqual(v span, value any) bool {
	switch value := value.(type) {
	case string:
		s, ok := d.readString(v)
		return ok && s == value
	case []string:
		list, ok := d.readStrings(v)
		return ok && slices.Equal(list, value)
	}
	return string(d.text[v.start:v.end]) == formatTOML(value)
}

// set gives a key in the table that path names, whose names are bare, a value. A table that is
// missing is made behind the last one below near, else at the end; then set returns what it adds
// before it. A value that means the same stays as it is.
func (d *tomlText) set(near, path []string, key string, value any) (made [][]string, err error) {
	if at := d.find(false, slices.Concat(path, []string{key})...); at >= 0 {
		v := d.items[at].value
		if d.isEqual(v, value) {
			return nil, nil
		}
		return nil, d.apply(splice{v, formatTOML(value)})
	}
	eol := lineEnd(d.text)
	line := key + " = " + formatTOML(value) + eol
	if head := d.find(true, path...); head >= 0 {
		for head+1 < len(d.items) && !d.items[head+1].isHead {
			head++
		}
		return nil, d.insertLines(d.items[head].lines.end, line)
	}
	at := len(d.text)
	for _, i := range d.items {
		if isBelow(i.path, near) {
			at = i.lines.end
		}
	}
	if !d.has(near...) {
		at = len(d.text)
	}
	gap, made := separate(d.text[:at])
	return made, d.apply(splice{span{at, at}, gap + "[" + strings.Join(path, ".") + "]" + eol + line})
}

// insertLines puts whole lines before text[at:], which is the beginning of a line or the end.
func (d *tomlText) insertLines(at int, lines string) error {
	if at > 0 && d.text[at-1] != '\n' {
		lines = lineEnd(d.text) + lines
	}
	return d.apply(splice{span{at, at}, lines})
}

// removeBelow takes away the tables below path, with their keys and the blank line before
// each, and keys that have path in other tables. made is what setup added before the first one.
func (d *tomlText) removeBelow(made [][]string, path ...string) error {
	var gone []splice
	for i := 0; i < len(d.items); i++ {
		item := d.items[i]
		if !isBelow(item.path, path) {
			continue
		}
		lines := item.lines
		if item.isHead {
			for i+1 < len(d.items) && !d.items[i+1].isHead {
				i++
				lines.end = d.items[i].lines.end
			}
			before := made
			if len(gone) > 0 {
				before = [][]string{{madeBlankLine, lineEnd(d.text)}}
			}
			lines.start = cutGap(d.text, lines.start, madeBlankLine, before)
		}
		if n := len(gone); n > 0 && lines.start < gone[n-1].end {
			lines.start = gone[n-1].end
		}
		gone = append(gone, splice{lines, ""})
	}
	if n := len(gone); n > 0 && gone[n-1].end == len(d.text) && gone[0].start > 0 {
		gone[0].start = cutGap(d.text, gone[0].start, madeLineEnd, made)
	}
	return d.apply(gone...)
}

// apply replaces parts of the text, which are in order and do not overlap, and reads it again.
func (d *tomlText) apply(changes ...splice) error {
	d.text, d.items = applySplices(d.text, changes...), nil
	return d.read()
}
