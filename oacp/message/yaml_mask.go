package message

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const bom = "\ufeff"

// mask hides from the YAML library here what it reads otherwise than the
// reference's, behind letters that the text does not hold:
//
//   - A byte order mark within the text is a letter to the reference, and confuses the
//     library about the letters after it.
//   - In double quotes "\/" is a slash to the reference and "\'" an error; to the library
//     it is the other way round.
//   - A tab between tokens is an error to the reference, and space to the library; one
//     that begins a block is the opposite. A letter in its place is an error too, or
//     part of a plain value, unless it stands in quotes, a block or a comment.
type mask struct {
	text []byte
	used map[rune]bool // letters in text that a letter might be taken from
	next rune          // the next letter to take, from the last one down: no file holds them all
}

// hide puts a letter in place of old, and returns it; "" if the text has no old.
func (m *mask) hide(old string) string { return m.replace(old, "") }

// hideEscape hides the backslash before c, but not one that another one escapes.
func (m *mask) hideEscape(c string) string {
	if !bytes.Contains(m.text, []byte(`\`+c)) {
		return ""
	}
	pair := m.hide(`\\`)
	letter := m.replace(`\`+c, c)
	if pair != "" {
		m.text = bytes.ReplaceAll(m.text, []byte(pair), []byte(`\\`))
	}
	return letter
}

func (m *mask) replace(old, rest string) (letter string) {
	if !bytes.Contains(m.text, []byte(old)) {
		return ""
	}
	if m.used == nil {
		m.used = make(map[rune]bool)
		for _, r := range string(m.text) {
			if r > 0xffff {
				m.used[r] = true
			}
		}
	}
	for m.used[m.next] {
		m.next--
	}
	letter = string(m.next)
	m.next--
	m.text = bytes.ReplaceAll(m.text, []byte(old), []byte(letter+rest))
	return letter
}

// restore puts back what a letter stands for, and tells whether there was any.
func restore(n *yaml.Node, letter, old string) bool {
	if letter == "" || !strings.Contains(n.Value, letter) {
		return false
	}
	n.Value = strings.ReplaceAll(n.Value, letter, old)
	return true
}

// restoreEscape puts back a backslash, which is part of a text without escapes.
func restoreEscape(n *yaml.Node, letter string) bool {
	if n.Style&yaml.DoubleQuotedStyle != 0 {
		return restore(n, letter, "")
	}
	return restore(n, letter, `\`)
}

func (m *mask) load() (*yaml.Node, error) {
	mark, slash, apostrophe := m.hide(bom), m.hideEscape("/"), m.hideEscape("'")
	root, err := m.loadTabs()
	if err != nil || mark+slash+apostrophe == "" {
		return root, err
	}
	walk(root, func(n *yaml.Node) {
		restore(n, mark, bom)
		restoreEscape(n, slash)
		if restoreEscape(n, apostrophe) && n.Style&yaml.DoubleQuotedStyle != 0 {
			err = fmt.Errorf(`line %d: found unknown escape character "'"`, n.Line)
		}
	})
	return root, err
}

// separator is an error even in quotes, and no separator any more once its tab is hidden.
var separator = regexp.MustCompile("(?:^|[\n\r\u0085\u2028\u2029])(?:---|\\.\\.\\.)\t")

// loadTabs reads text with tabs twice: folding quoted lines trims tabs but not
// letters, so the text as it is counts, if it can be read.
func (m *mask) loadTabs() (*yaml.Node, error) {
	if !bytes.Contains(m.text, []byte("\t")) {
		return compose(m.text)
	}
	if separator.Match(m.text) {
		return nil, errors.New("found a tab after a document separator: write a space")
	}
	asIs, unreadable := compose(m.text)
	escape, tab := m.hideEscape("\t"), m.hide("\t")
	root, err := compose(m.text)
	if err != nil {
		return nil, fmt.Errorf("%w (write tabs only in quotes, blocks and comments)", err)
	}
	walk(root, func(n *yaml.Node) {
		restoreEscape(n, escape)
		if restore(n, tab, "\t") && n.Style&^yaml.TaggedStyle == 0 {
			err = fmt.Errorf("line %d: found a tab outside of quotes, blocks and comments: write spaces, or quote the value", n.Line)
		}
	})
	if unreadable != nil {
		return root, err
	}
	return asIs, err
}

func walk(n *yaml.Node, visit func(*yaml.Node)) {
	if n == nil {
		return
	}
	visit(n)
	for _, child := range n.Content {
		walk(child, visit)
	}
}
