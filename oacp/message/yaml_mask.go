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

// yamlMask hides from our YAML library what it reads differently than the reference's library. It
// replaces that by letters that the text does not have:
//
//   - A byte order mark within the text is a letter for the reference. Our library misreads
//     the letters after it.
//   - In double quotes "\/" is a slash for the reference and "\'" an error. For our library it
//     is the opposite.
//   - A tab between tokens is an error for the reference and space for our library. A tab that
//     begins a block is the opposite. A letter in its place is an error too, or part of a plain
//     value, unless it is in quotes, a block or a comment.
type yamlMask struct {
	text []byte
	used map[rune]bool // letters beyond U+FFFF in text
	next rune          // the next letter to use, from the last one down; no file has all of them
}

// hideEscape hides the backslash before c, but not one that another backslash escapes. It returns
// the letter in its place, or "" if there was none.
func (m *yamlMask) hideEscape(c string) string {
	if !bytes.Contains(m.text, []byte(`\`+c)) {
		return ""
	}
	pair := m.hideText(`\\`, "")
	letter := m.hideText(`\`+c, c)
	if pair != "" {
		m.text = bytes.ReplaceAll(m.text, []byte(pair), []byte(`\\`))
	}
	return letter
}

// hideText replaces old by a letter and rest. It returns the letter, or "" if the text does not
// have old.
func (m *yamlMask) hideText(old, rest string) (letter string) {
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

// restoreMaskedText restores the text that a letter hides. It returns false if there is none.
func restoreMaskedText(n *yaml.Node, letter, old string) bool {
	if letter == "" || !strings.Contains(n.Value, letter) {
		return false
	}
	n.Value = strings.ReplaceAll(n.Value, letter, old)
	return true
}

// restoreMaskedEscape restores a backslash. In double quotes, where it began an escape, it only
// removes the letter.
func restoreMaskedEscape(n *yaml.Node, letter string) bool {
	if n.Style&yaml.DoubleQuotedStyle != 0 {
		return restoreMaskedText(n, letter, "")
	}
	return restoreMaskedText(n, letter, `\`)
}

func (m *yamlMask) decodeMasked() (*yaml.Node, error) {
	mark, slash, apostrophe := m.hideText(bom, ""), m.hideEscape("/"), m.hideEscape("'")
	root, err := m.decodeWithTabs()
	if err != nil || mark+slash+apostrophe == "" {
		return root, err
	}
	walkYAMLNodes(root, func(n *yaml.Node) {
		restoreMaskedText(n, mark, bom)
		restoreMaskedEscape(n, slash)
		if restoreMaskedEscape(n, apostrophe) && n.Style&yaml.DoubleQuotedStyle != 0 {
			err = fmt.Errorf(`line %d: found unknown escape character "'"`, n.Line)
		}
	})
	return root, err
}

// separator matches a document separator before a tab. That is an error even in quotes. With its
// tab hidden it would no longer be a separator.
var separator = regexp.MustCompile("(?:^|[\n\r\u0085\u2028\u2029])(?:---|\\.\\.\\.)\t")

// decodeWithTabs reads text with tabs twice. It returns the unmasked text if that can be read,
// because folding quoted lines trims tabs but not letters.
func (m *yamlMask) decodeWithTabs() (*yaml.Node, error) {
	if !bytes.Contains(m.text, []byte("\t")) {
		return decodeYAMLDocument(m.text)
	}
	if separator.Match(m.text) {
		return nil, errors.New("found a tab after a document separator: write a space")
	}
	asIs, unreadable := decodeYAMLDocument(m.text)
	escape, tab := m.hideEscape("\t"), m.hideText("\t", "")
	root, err := decodeYAMLDocument(m.text)
	if err != nil {
		return nil, fmt.Errorf("%w (write tabs only in quotes, blocks and comments)", err)
	}
	walkYAMLNodes(root, func(n *yaml.Node) {
		restoreMaskedEscape(n, escape)
		if restoreMaskedText(n, tab, "\t") && n.Style&^yaml.TaggedStyle == 0 {
			err = fmt.Errorf("line %d: found a tab outside of quotes, blocks and comments: write spaces, or quote the value", n.Line)
		}
	})
	if unreadable != nil {
		return root, err
	}
	return asIs, err
}

func walkYAMLNodes(n *yaml.Node, visit func(*yaml.Node)) {
	if n == nil {
		return
	}
	visit(n)
	for _, child := range n.Content {
		walkYAMLNodes(child, visit)
	}
}
