package setup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlText is a TOML text. Names in paths that are set are such as need no quotes.
type tomlText struct {
	text  []byte
	items []tomlItem
}

// tomlItem is the head of a table, or a key with its value.
type tomlItem struct {
	path     []string // whole: with that of the table
	table    int      // how many names of path are of the table
	isHead   bool
	isList   bool // the head of one table of a list: [[name]]
	isInline bool // a key of a table { … }, which is an item too
	lines    span // from the beginning of its first line to behind its last one
	value    span // of a key
	decoded  any  // a string, a bool, a list, an empty map for a table, or nil for another value
}

func openTOML(text []byte) (document, error) {
	d := &tomlText{text: text}
	return d, d.read()
}

func (d *tomlText) bytes() []byte { return d.text }

func (d *tomlText) read() error {
	d.items = nil
	var p unstable.Parser
	p.Reset(slices.Clip(d.text)) // it finds positions by capacities
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.KeyValue {
			d.addKey(e, table, false)
			continue
		}
		var keys span
		table, keys = readNames(e)
		d.items = append(d.items, tomlItem{
			path: table, table: len(table), isHead: true, isList: e.Kind == unstable.ArrayTable, lines: d.linesOf(keys), decoded: map[string]any{},
		})
	}
	if err, isParser := errors.AsType[*unstable.ParserError](p.Error()); isParser {
		return errorAt(d.text, int(p.Range(err.Highlight).Offset), "it is not valid TOML") // what the parser says shows parts of the file
	}
	return p.Error()
}

// readNames returns the names of an expression's key, and where they stand.
func readNames(e *unstable.Node) (names []string, at span) {
	keys := e.Key()
	for keys.Next() {
		raw := keys.Node().Raw
		if names == nil {
			at.start = int(raw.Offset)
		}
		at.end = int(raw.Offset + raw.Length)
		names = append(names, string(keys.Node().Data))
	}
	return names, at
}

// addKey adds a key with its value to the items, and the keys of the table { … } that the value may be.
func (d *tomlText) addKey(e *unstable.Node, table []string, isInline bool) {
	names, keys := readNames(e)
	path, end := slices.Concat(table, names), int(e.Raw.Offset+e.Raw.Length)
	start := keys.end + bytes.IndexByte(d.text[keys.end:], '=') + 1
	start += len(d.text[start:end]) - len(bytes.TrimLeft(d.text[start:end], " \t"))
	d.items = append(d.items, tomlItem{
		path: path, table: len(table), isInline: isInline,
		lines: d.linesOf(span{keys.start, end}), value: span{start, end}, decoded: decodeTOML(e.Value()),
	})
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	for inner := e.Value().Children(); inner.Next(); {
		d.addKey(inner.Node(), path, true)
	}
}

// linesOf returns the lines of a part of the text.
func (d *tomlText) linesOf(s span) span {
	end := len(d.text)
	if i := bytes.IndexByte(d.text[s.end:], '\n'); i >= 0 {
		end = s.end + i + 1
	}
	return span{startOfLine(d.text, s.start), end}
}

func decodeTOML(value *unstable.Node) any {
	switch value.Kind {
	case unstable.String:
		return string(value.Data)
	case unstable.Bool:
		return string(value.Data) == "true"
	case unstable.Array:
		list := []any{}
		for elements := value.Children(); elements.Next(); {
			list = append(list, decodeTOML(elements.Node()))
		}
		return list
	case unstable.InlineTable:
		return map[string]any{}
	}
	return nil
}

// isBelow reports whether a path begins with another.
func isBelow(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// errorAbout returns an error about an item.
func (d *tomlText) errorAbout(i tomlItem, format string, args ...any) error {
	return errorAt(d.text, i.lines.start, "%s %s", strings.Join(i.path, "."), fmt.Sprintf(format, args...))
}

func (d *tomlText) get(path ...string) (value any, found bool, err error) {
	seen, table := make(map[string]bool), make(map[string]any)
	value = table
	for _, i := range d.items {
		isOnWay := isBelow(path, i.path)
		if !isOnWay && !isBelow(i.path, path) {
			continue
		}
		name := fmt.Sprintf("%q %t", i.path, i.isHead)
		switch {
		case isOnWay && i.isList:
			return nil, false, d.errorAbout(i, "is a list, to which setup cannot add: write it as a table, then run setup again")
		case seen[name] && len(i.path) <= len(path)+1:
			return nil, false, d.errorAbout(i, "is there twice: remove one of them, then run setup again")
		}
		seen[name] = true
		found = found || len(i.path) >= len(path)
		if len(i.path) > len(path) {
			putValue(table, i.path[len(path):], i.decoded)
		} else if _, isTable := i.decoded.(map[string]any); len(i.path) == len(path) && !isTable {
			value = i.decoded
		}
	}
	return value, found, nil
}

// putValue puts a value into a table, and makes the tables on the way to it.
func putValue(table map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		next, ok := table[name].(map[string]any)
		if !ok {
			next = make(map[string]any)
			table[name] = next
		}
		table = next
	}
	if name := path[len(path)-1]; table[name] == nil {
		table[name] = value
	}
}

// find returns the index of the key or of the head of the table at a path, -1 if it does not exist.
func (d *tomlText) find(isHead bool, path []string) int {
	return slices.IndexFunc(d.items, func(i tomlItem) bool {
		return i.isHead == isHead && !i.isList && slices.Equal(i.path, path)
	})
}

// set makes a table that is missing behind the last one that has the first two names of its path in
// common with it, else at the end.
func (d *tomlText) set(value any, path ...string) error {
	if members, ok := value.(object); ok {
		for _, m := range members {
			if err := d.set(m.value, append(slices.Clone(path), m.name)...); err != nil {
				return err
			}
		}
		return nil
	}
	text := formatValue(value)
	old, found, err := d.get(path...)
	if err != nil {
		return err
	}
	if now, err := decodeJSON([]byte(text)); err != nil || found && reflect.DeepEqual(old, now) {
		return err
	}
	if i := d.find(false, path); i >= 0 {
		return d.apply(splice{d.items[i].value, text})
	}
	table, eol := path[:len(path)-1], lineEnd(d.text)
	text = path[len(path)-1] + " = " + text
	if i := d.find(false, table); i >= 0 && d.text[d.items[i].value.start] == '{' {
		begin, separator := d.items[i].value.start+1, ","
		if bytes.HasPrefix(bytes.TrimLeft(d.text[begin:], " \t"), []byte("}")) {
			separator = " "
		}
		return d.apply(splice{span{begin, begin}, " " + text + separator})
	}
	if i := d.find(true, table); i >= 0 {
		end := d.lastOfTable(i).lines.end
		gap := ""
		if end > 0 && d.text[end-1] != '\n' {
			gap = eol
		}
		return d.apply(splice{span{end, end}, gap + text + eol})
	}
	if err := d.checkNewTable(table); err != nil {
		return err
	}
	at := len(d.text)
	for n, i := range d.items {
		if isBelow(i.path, path[:2]) {
			at = d.lastOfTable(n).lines.end
		}
	}
	return d.apply(splice{span{at, at}, separate(d.text[:at]) + "[" + strings.Join(table, ".") + "]" + eol + text + eol})
}

// lastOfTable returns the last item of the table in which an item is, or whose head it is.
func (d *tomlText) lastOfTable(n int) tomlItem {
	for n+1 < len(d.items) && !d.items[n+1].isHead {
		n++
	}
	return d.items[n]
}

// checkNewTable returns an error if TOML allows no table of that path: if one around it is a value, or
// if it is there already, by names with dots.
func (d *tomlText) checkNewTable(path []string) error {
	for _, i := range d.items {
		switch {
		case isBelow(path, i.path) && !i.isHead:
			return d.errorAbout(i, "is a value, to which setup cannot add: write it as a table [%s], then run setup again", strings.Join(i.path, "."))
		case len(i.path) > len(path) && isBelow(i.path, path) && i.table < len(path):
			return d.errorAbout(i, "is written with dots, to which setup cannot add: write it in a table [%s], then run setup again", strings.Join(path, "."))
		}
	}
	return nil
}

// remove takes away the tables below a path, with their keys and the blank line before each, and keys
// below it in other tables.
func (d *tomlText) remove(path ...string) error {
	var gone []splice
	end := 0
	for n, i := range d.items {
		if !isBelow(i.path, path) || i.lines.start < end {
			continue
		}
		lines := i.lines
		switch {
		case i.isInline:
			return d.errorAbout(i, "is part of a value, which setup does not take apart: remove it there, then run setup again")
		case i.isHead:
			lines.end = d.lastOfTable(n).lines.end
			lines.start = cutBlankLine(d.text, lines.start)
		}
		gone, end = append(gone, splice{lines, ""}), lines.end
	}
	return d.apply(gone...)
}

// apply replaces parts of the text, which are in order and do not overlap, and reads it again.
func (d *tomlText) apply(changes ...splice) error {
	d.text = applySplices(d.text, changes...)
	return d.read()
}
