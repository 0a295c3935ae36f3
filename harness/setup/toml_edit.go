package setup

import (
	"slices"
	"strings"
)

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
	if err := d.checkNewTable(path); err != nil {
		return nil, err
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

// checkNewTable returns an error if TOML allows no table of that path: if it, or one around it,
// is a value or a list, or if it is there already, by names with dots.
func (d *tomlText) checkNewTable(path []string) error {
	for _, i := range d.items {
		name, form := strings.Join(i.path, "."), ""
		switch {
		case isBelow(path, i.path) && i.isList:
			form = "a list"
		case isBelow(path, i.path) && !i.isHead:
			form = "a value"
		case len(i.path) > len(path) && isBelow(i.path, path) && i.table < len(path):
			name, form = strings.Join(path, "."), "written with dots"
		default:
			continue
		}
		return d.errorAt(i.lines.start, "%s is %s, to which setup cannot add: write it as a table [%s], then run setup again", name, form, name)
	}
	return nil
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
				before = [][]string{{madeBlankLine}}
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
