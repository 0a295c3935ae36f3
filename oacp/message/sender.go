package message

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxValueStarts bounds the characters of a carried file with which a value, a key or a comment
// can begin. Reading takes some 600 bytes of memory for each, so a file of 1 MiB that has only
// such characters would take 300 MiB, and seconds. A valid message has 20,000 letters.
const maxValueStarts = 1 << 15

// countValueStarts counts the characters with which a value, a key or a comment can begin,
// wherever they are.
func countValueStarts(data []byte) (n int) {
	for i, b := range data {
		switch b {
		case ',', '[', '{', '#':
			n++
		case '-', '?', ':':
			if i+1 == len(data) || data[i+1] <= ' ' || data[i+1] >= utf8.RuneSelf {
				n++
			}
		}
	}
	return n
}

// ParseCarriableMessage checks what carrying a file needs: it has 1 byte to 1 MiB, it is a mapping
// of not too many values, its sender's name is legal, and no reader finds another sender in it.
// Other faults are left to the receiver. The error is for people.
func ParseCarriableMessage(data []byte) (Message, error) {
	if len(data) == 0 {
		return Message{}, errors.New("the file is empty")
	}
	if n := countValueStarts(data); n > maxValueStarts {
		return Message{}, fmt.Errorf("it has %d commas, brackets, dashes, colons and the like, where values can begin: a message may have %d: shorten it, or send it in parts", n, maxValueStarts)
	}
	d, err := ParseDocument(data)
	if err != nil {
		return Message{}, err
	}
	m := d.ToMessage()
	if !IsLegalAgentName(m.From) {
		return Message{}, fmt.Errorf("field 'from' %s", nameText)
	}
	if err := d.checkSender(m.From); err != nil {
		return Message{}, err
	}
	return m, nil
}

// The proved sender is the one that ParseDocument reads. Other readers may use the first of equal
// keys, or the first line that begins with "from:". They may merge the mapping behind "<<", or end
// lines where this library does not. Language models read the text as it looks. A file in which one
// of them could find another sender is refused.

// checkSender refuses a file in which some reader finds another sender than from.
func (d *Document) checkSender(from string) error {
	if err := checkMappingKeys(d.root); err != nil {
		return err
	}
	if err := d.checkLineBreaks(from); err != nil {
		return err
	}
	return d.checkSenderLine(from)
}

// checkMappingKeys refuses a mapping in which a key is there twice, as people read keys, or is "<<".
func checkMappingKeys(root *yaml.Node) error {
	seen := make(map[string]bool)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := resolveYAMLAlias(root.Content[i]).Value
		if key == "<<" {
			return fmt.Errorf("line %d: some readers merge what '<<' holds into the message: write its fields out", root.Content[i].Line)
		}
		if seen[foldLookalikeKey(key)] {
			return fmt.Errorf("line %d: field %.80q is there twice, and readers differ in which they take: keep one", root.Content[i].Line, key)
		}
		seen[foldLookalikeKey(key)] = true
	}
	return nil
}

// foldLookalikeKey returns a key as people read it, and readers that ignore case: only its letters
// and digits, in lower case.
func foldLookalikeKey(key string) string {
	return strings.Map(func(r rune) rune {
		r = toPlainLetter(r)
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// toPlainLetter returns the ASCII letter of which a letter is another width or style, or that it
// looks like if that is a letter of "from". It returns any other letter unchanged.
func toPlainLetter(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case r >= 0xFF21 && r <= 0xFF3A, r >= 0xFF41 && r <= 0xFF5A: // as wide as Chinese ones
		return r - 0xFF21 + 'A'
	case r >= 0x24B6 && r <= 0x24E9: // in circles
		return 'a' + (r-0x24B6)%26
	case r >= 0x1D400 && r <= 0x1D6A3: // of mathematics: bold, script, sans-serif and so on
		return 'a' + (r-0x1D400)%52%26
	}
	return cmp.Or(plainLetters[r], r)
}

// plainLetters has the letters that look like those of "from".
var plainLetters = func() map[rune]rune {
	all := make(map[rune]rune)
	for letter, others := range map[rune]string{'f': "ƒꞙꞘſϝϜẝ", 'r': "гᴦⲅꭇꭈʀᴿʳ", 'o': "оОοΟօՕσ௦०ᴏ", 'm': "мМΜᴍⅿⅯ"} {
		for _, r := range others {
			all[r] = letter
		}
	}
	return all
}()

// laterBreaks are line breaks in YAML 1.1 and letters in YAML 1.2.
const laterBreaks = "\u0085\u2028\u2029"

// checkLineBreaks refuses a file in which a reader of YAML 1.2 finds another sender.
func (d *Document) checkLineBreaks(from string) error {
	if !bytes.ContainsAny(d.raw, laterBreaks) {
		return nil
	}
	text := bytes.Map(func(r rune) rune {
		if strings.ContainsRune(laterBreaks, r) {
			return '.'
		}
		return r
	}, d.raw)
	root, err := loadYAMLText(text)
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return nil // such a reader does not take it for a message
	}
	err = checkMappingKeys(root)
	for i := 0; err == nil && i+1 < len(root.Content); i += 2 {
		if foldLookalikeKey(resolveYAMLAlias(root.Content[i]).Value) == "from" && stripPythonSpace(resolveYAMLAlias(root.Content[i+1]).Value) != from {
			err = errors.New("it is from somebody else")
		}
	}
	if err != nil {
		return fmt.Errorf("to readers that take U+0085, U+2028 and U+2029 for letters: %w (write these as escapes in double quotes)", err)
	}
	return nil
}

var (
	// senderLine matches the text from the key on if every reader finds the same sender in it.
	senderLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:from|"from"|'from')[ \t]*:[ \t]*["']?([A-Za-z0-9._-]+)["']?(?:[ \t]*[,}]|[ \t]*$|[ \t]+#)`)
	})
	// senderLike matches text before the key that a reader may take for a sender.
	senderLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)from[^\pL\pN]*:`) })
)

// checkSenderLine refuses a file in which a reader of lines finds another sender. "from" and the
// name must be on one line, in plain letters. No line before that may begin like it. No line at
// the margin after it may look like a field and not be one.
func (d *Document) checkSenderLine(from string) error {
	margin := make(map[int]string) // keys at the margin, by their lines
	var sender *yaml.Node
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		key := d.root.Content[i]
		if resolveYAMLAlias(key).Value == "from" {
			sender = key
		}
		if key.Column == 1 {
			margin[key.Line] = resolveYAMLAlias(key).Value
		}
	}
	found := false
	for n, line := range numberLines(strings.TrimPrefix(string(d.raw), bom)) {
		if n == sender.Line {
			before, after := cutLineAtColumn(line.text, sender.Column)
			m := senderLine().FindStringSubmatch(after)
			if m == nil || m[1] != from || !line.whole || senderLike().MatchString(before) {
				return fmt.Errorf("line %d: field 'from' and the name must be on one line, in plain letters: from: %s", n, from)
			}
			found = true
			continue
		}
		before, _, isField := strings.Cut(line.text, ":")
		if !isField {
			continue
		}
		switch key := strings.Trim(before, "\"' \t"); {
		case foldLookalikeKey(before) == "from" && !found:
			return fmt.Errorf("line %d looks like field 'from', and is not: put that before it", n)
		case strings.ContainsAny(before[:min(1, len(before))], " \t#-"):
		case foldLookalikeKey(before) == "from", isKnownField(key) && margin[n] != key:
			return fmt.Errorf("line %d looks like field '%s', and is not: begin it with a space", n, foldLookalikeKey(before))
		}
	}
	return nil
}

// cutLineAtColumn cuts a line before a column, which counts letters from 1.
func cutLineAtColumn(line string, column int) (before, after string) {
	for i := range line {
		if column--; column == 0 {
			return line[:i], line[i:]
		}
	}
	return line, ""
}

// line is one line of a file.
type line struct {
	text  string
	whole bool // it is also a line for readers that end lines only at LF and CR LF
}

// numberLines yields the lines of a text with their numbers, from 1. It ends lines as YAML 1.1
// does, which has all the line breaks that any reader knows among the allowed letters.
func numberLines(text string) iter.Seq2[int, line] {
	return func(yield func(int, line) bool) {
		begins := true // where readers of LF see a line begin too
		for n := 1; text != ""; n++ {
			var l, lineBreak string
			l, lineBreak, text = cutFirstLine(text, func(r rune) bool {
				return r == '\n' || r == '\r' || r >= 0x80 && strings.ContainsRune(laterBreaks, r)
			})
			ends := lineBreak == "" || strings.HasSuffix(lineBreak, "\n")
			if !yield(n, line{l, begins && ends}) {
				return
			}
			begins = ends
		}
	}
}
