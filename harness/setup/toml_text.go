package setup

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
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
	table  int      // how many names of path are of the table
	lines  span     // from the beginning of its first line to behind its last one
	isHead bool
	isList bool // the head of one table of a list: [[name]]
	value  span // of a key
}

// newTOMLText reads a text.
func newTOMLText(text []byte) (*tomlText, error) {
	d := &tomlText{text: text}
	return d, addRemedy(d.read())
}

// errorAt returns an error that names a place in the text, and shows nothing of it.
func (d *tomlText) errorAt(at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+bytes.Count(d.text[:min(at, len(d.text))], []byte{'\n'}), fmt.Sprintf(format, args...))
}

func (d *tomlText) read() error {
	if !utf8.Valid(d.text) {
		return errNotUTF8
	}
	var table []string
	names := tomlNames{make(map[string]bool), make(map[string]int)}
	for at := len(d.text) - len(bytes.TrimPrefix(d.text, []byte("\ufeff"))); at < len(d.text); {
		start := at
		at = d.skipBlanks(at)
		isItem := at < len(d.text) && strings.IndexByte("#\n\r", d.text[at]) < 0
		var item tomlItem
		var err error
		if isItem {
			if item, at, err = d.readItem(at, table); err != nil {
				return err
			}
			if item.isHead {
				table = item.path
			}
			if names.add(&item) {
				return d.errorAt(start, "a name that is there twice")
			}
		}
		if at, err = d.skipLineEnd(at); err != nil {
			return err
		}
		if isItem {
			item.lines = span{start, at}
			d.items = append(d.items, item)
		}
	}
	return nil
}

// tomlNames are the names of a text that were read.
type tomlNames struct {
	seen   map[string]bool
	counts map[string]int // of the tables of each list
}

// add adds the name of an item. It reports whether the name was there, where it may not be twice.
func (n *tomlNames) add(item *tomlItem) (again bool) {
	if item.isList {
		n.counts[strings.Join(item.path, "\x00")]++
	}
	var b strings.Builder
	for i := range item.path {
		fmt.Fprintf(&b, "%q", item.path[i])
		if count := n.counts[strings.Join(item.path[:i+1], "\x00")]; count > 0 {
			fmt.Fprintf(&b, "#%d", count)
		}
	}
	name := b.String()
	again = n.seen[name] && !item.isList
	n.seen[name] = true
	return again
}

// readItem reads the head of a table, or a key with its value, at text[at:]. table is the table
// in which a key is. It returns the index behind it.
func (d *tomlText) readItem(at int, table []string) (item tomlItem, end int, err error) {
	if d.text[at] == '[' {
		item.isHead, item.isList = true, bytes.HasPrefix(d.text[at:], []byte("[["))
		brackets := "]"
		if item.isList {
			brackets = "]]"
		}
		if item.path, at, err = d.readKey(at + len(brackets)); err != nil {
			return item, at, err
		}
		if !bytes.HasPrefix(d.text[at:], []byte(brackets)) {
			return item, at, d.errorAt(at, "the head of a table that does not end")
		}
		item.table = len(item.path)
		return item, at + len(brackets), nil
	}
	name, at, err := d.readKey(at)
	if err != nil {
		return item, at, err
	}
	item.path, item.table = slices.Concat(table, name), len(table)
	if at == len(d.text) || d.text[at] != '=' {
		return item, at, d.errorAt(at, "expected an equals sign")
	}
	item.value.start = d.skipBlanks(at + 1)
	item.value.end, err = d.skipValue(item.value.start, 0)
	return item, item.value.end, err
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
