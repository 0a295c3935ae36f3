package setup

import (
	"bytes"
	"slices"
	"strings"
)

// set gives the member that path names a value. It makes the objects on the way to it, and
// returns the paths of those that were missing. A value that means the same stays as it is.
func (d *jsonText) set(value any, path ...string) (made [][]string, err error) {
	c := d.readRoot()
	for i, name := range path {
		at, err := d.findMember(c, name)
		if err != nil {
			return nil, err
		}
		last := i == len(path)-1
		switch {
		case at < 0:
			for j := len(path) - 1; j > i; j-- {
				value = object{{path[j], value}}
				made = append(made, path[:j])
			}
			d.insert(c, func(indent string, inline bool) string {
				return quoteJSON(name) + d.colon(inline) + d.format(value, indent, inline)
			})
			return made, nil
		case last:
			v := c.entries[at].value
			if !d.isEqual(v, value) {
				d.apply(splice{v, d.format(value, d.indentOfLine(c.entries[at].start), !d.isOnOwnLine(c))})
			}
			return nil, nil
		}
		v := c.entries[at].value
		if d.kindOf(v) != '{' {
			return nil, d.errorAt(v.start, "%s is no object: remove it or make it one, then run setup again", strings.Join(path[:i+1], "."))
		}
		c = d.readEntries(v.start)
	}
	return nil, nil
}

// appendStrings appends strings to the array that path names, without those that it has, and makes
// it if it is missing. It returns what [jsonText.set] does, with the path of the array.
func (d *jsonText) appendStrings(list []string, path ...string) (made [][]string, err error) {
	v, found, err := d.findValue(path...)
	switch {
	case err != nil:
		return nil, err
	case !found:
		if made, err = d.set(list, path...); err == nil {
			made = append([][]string{path}, made...)
		}
		return made, err
	case d.kindOf(v) != '[':
		return nil, d.errorAt(v.start, "%s is no list: remove it or make it one, then run setup again", strings.Join(path, "."))
	}
	have, _ := d.readStrings(v)
	for _, s := range list {
		if !slices.Contains(have, s) {
			d.insert(d.readEntries(v.start), func(string, bool) string { return quoteJSON(s) })
		}
	}
	return nil, nil
}

// remove takes away the member that path names, if it is there.
func (d *jsonText) remove(path ...string) error {
	parent := path[:len(path)-1]
	c := d.readRoot()
	if len(parent) > 0 {
		v, found, err := d.findValue(parent...)
		if err != nil || !found || d.kindOf(v) != '{' {
			return err
		}
		c = d.readEntries(v.start)
	}
	at, err := d.findMember(c, path[len(path)-1])
	if err == nil && at >= 0 {
		d.removeEntry(c, at)
	}
	return err
}

// removeStrings takes strings out of the array that path names.
func (d *jsonText) removeStrings(list []string, path ...string) error {
	for {
		v, found, err := d.findValue(path...)
		if err != nil || !found || d.kindOf(v) != '[' {
			return err
		}
		c := d.readEntries(v.start)
		at := slices.IndexFunc(c.entries, func(e entry) bool {
			s, ok := d.readString(e.value)
			return ok && slices.Contains(list, s)
		})
		if at < 0 {
			return nil
		}
		d.removeEntry(c, at)
	}
}

// removeEmpty takes away those of these objects and arrays that are empty, inner ones first.
func (d *jsonText) removeEmpty(paths [][]string) error {
	paths = slices.Clone(paths)
	slices.SortStableFunc(paths, func(a, b []string) int { return len(b) - len(a) })
	for _, path := range paths {
		v, found, err := d.findValue(path...)
		if err != nil {
			return err
		}
		if !found || d.kindOf(v) != '{' && d.kindOf(v) != '[' || len(bytes.TrimSpace(d.text[v.start+1:v.end-1])) > 0 {
			continue
		}
		if err := d.remove(path...); err != nil {
			return err
		}
	}
	return nil
}

// insert puts a new entry behind the others of c.
func (d *jsonText) insert(c container, format func(indent string, inline bool) string) {
	eol, outer, lines := lineEnd(d.text), d.indentOfLine(c.open), d.isOnOwnLine(c)
	content := c.open + 1 // behind what c has, comments included
	if n := len(c.entries); n > 0 {
		content = max(c.entries[n-1].value.end, c.entries[n-1].comma+1)
	}
	hasComments := false
	for at := content; ; hasComments = true {
		for at < c.close && strings.IndexByte(" \t\r\n", d.text[at]) >= 0 {
			at++
		}
		if at == c.close {
			break
		}
		at = d.skipComment(at)
		content = at
	}
	switch n := len(c.entries); {
	case n == 0 && !hasComments && lines:
		indent := outer + d.indentUnit()
		d.apply(splice{span{c.open + 1, c.close}, eol + indent + format(indent, false) + eol + outer})
	case n == 0 && !hasComments:
		d.apply(splice{span{c.open + 1, c.close}, format("", true)})
	case n == 0:
		indent, end := outer+d.indentUnit(), ""
		if bytes.IndexByte(d.text[content:c.close], '\n') < 0 {
			end = eol + outer
		}
		d.apply(splice{span{content, content}, eol + indent + format(indent, false) + end})
	case lines:
		last := c.entries[n-1]
		indent := d.indentOfLine(c.entries[0].start)
		if last.comma >= 0 {
			d.apply(splice{span{content, content}, eol + indent + format(indent, false) + ","})
		} else {
			d.apply(splice{span{last.value.end, last.value.end}, ","}, splice{span{content, content}, eol + indent + format(indent, false)})
		}
	default:
		last := c.entries[n-1]
		gap := ""
		if n > 1 && d.text[c.entries[0].comma+1] == ' ' {
			gap = " "
		}
		if last.comma >= 0 {
			d.apply(splice{span{last.comma + 1, last.comma + 1}, gap + format("", true) + ","})
		} else {
			d.apply(splice{span{last.value.end, last.value.end}, "," + gap + format("", true)})
		}
	}
}

// skipComment returns the index behind the comment at text[at:], which was checked.
func (d *jsonText) skipComment(at int) int {
	if d.text[at+1] == '*' {
		return at + 4 + bytes.Index(d.text[at+2:], []byte("*/"))
	}
	end := at + bytes.IndexByte(d.text[at:], '\n') // there is one before the bracket
	return len(bytes.TrimRight(d.text[:end], "\r"))
}

// removeEntry takes away an entry and its comma. If it stands on lines of its own, they go too.
func (d *jsonText) removeEntry(c container, i int) {
	e, last := c.entries[i], i == len(c.entries)-1
	start, end := e.start, e.value.end
	if e.comma >= 0 && len(bytes.TrimSpace(d.text[end:e.comma])) == 0 {
		end = e.comma + 1
	}
	lineStart := start
	for lineStart > 0 && (d.text[lineStart-1] == ' ' || d.text[lineStart-1] == '\t') {
		lineStart--
	}
	restOfLine := end
	for restOfLine < len(d.text) && strings.IndexByte(" \t\r", d.text[restOfLine]) >= 0 {
		restOfLine++
	}
	var extra []splice
	switch {
	case lineStart > 0 && d.text[lineStart-1] == '\n' && restOfLine < len(d.text) && d.text[restOfLine] == '\n':
		start = lineStart - 1
		if start > 0 && d.text[start-1] == '\r' {
			start--
		}
		for d.text[restOfLine-1] == '\r' {
			restOfLine--
		}
		end = restOfLine
	case !last:
		end = c.entries[i+1].start
		if bytes.ContainsAny(d.text[e.value.end:end], "/\n") { // foreign comments stay
			end = e.comma + 1
		}
	default:
		start = lineStart
	}
	if last && i > 0 && e.comma < 0 {
		comma := c.entries[i-1].comma
		extra = append(extra, splice{span{comma, comma + 1}, ""})
	}
	d.apply(append(extra, splice{span{start, end}, ""})...)
	if len(c.entries) == 1 {
		if c = d.readEntries(c.open); len(bytes.TrimSpace(d.text[c.open+1:c.close])) == 0 {
			d.apply(splice{span{c.open + 1, c.close}, ""})
		}
	}
}

// apply replaces parts of the text, which are in order and do not overlap.
func (d *jsonText) apply(changes ...splice) { d.text = applySplices(d.text, changes...) }
