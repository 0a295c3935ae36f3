package yamldoc

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// readDocument returns the file's one YAML document, or nil if it is empty or
// something is wrong with it as a whole.
func (d *Document) readDocument(data []byte) *yaml.Node {
	if at := findNonTextByte(data); at >= 0 {
		d.addError(lineOfOffset(data, at), "", "a character that is no text", "save the file as UTF-8 without control characters")
		return nil
	}
	var root, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&root); err != nil {
		if !errors.Is(err, io.EOF) {
			d.addSyntaxError(data, err)
		}
		return nil
	}
	if err := dec.Decode(&second); err == nil {
		d.addError(second.Line, "", "a second document begins here", "remove the line ---, or everything from it on")
		return nil
	} else if !errors.Is(err, io.EOF) {
		d.addSyntaxError(data, err)
		return nil
	}
	top := root.Content[0]
	if top.Kind == yaml.ScalarNode && top.Value == "" && top.Anchor == "" && top.ShortTag() == "!!null" {
		return nil // nothing but ---
	}
	return top
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)

// addSyntaxError reports an error of the YAML parser, which knows its line only
// roughly and leaves it out on the first.
func (d *Document) addSyntaxError(data []byte, err error) {
	line, problem := 1, err.Error()
	if m := yamlError.FindStringSubmatch(problem); m != nil {
		problem = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = min(n, lineOfOffset(data, len(data)))
		}
	}
	if (strings.Contains(problem, "cannot start any token") || strings.Contains(problem, "tab character")) && isIndentedByTab(data, line) {
		d.addError(line, "", "a tab indents this line", "use spaces")
		return
	}
	remedy := "check quotes, colons and indentation here and in the next lines"
	if strings.Contains(problem, "alphabetic or numeric") || strings.Contains(problem, "anchor") {
		remedy = `"*" and text that begins with * or & must be in quotes`
	}
	d.addError(line, "", "no valid YAML: "+problem, remedy)
}

// isIndentedByTab reports whether a tab is in front of the text of a line, which YAML forbids.
func isIndentedByTab(data []byte, line int) bool {
	lines := bytes.Split(data, []byte{'\n'})
	text := lines[min(line, len(lines))-1]
	return bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t')
}

// lineOfOffset returns the line, from 1, of the byte at offset at.
func lineOfOffset(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte{'\n'}) }

// findNonTextByte returns the offset of the first byte that is not text, or -1.
func findNonTextByte(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\n' && r != '\r' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return i
		}
		i += size
	}
	return -1
}
