package message

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxMarks is how often a file that is carried may have what a value, a key or a comment
// can begin with. Reading takes some 600 bytes of memory for each: so 1 MiB that holds
// nothing else would take 300 MiB, and seconds. A valid message has 20,000 letters.
const maxMarks = 1 << 15

// marks counts what a value, a key or a comment can begin with, wherever it stands.
func marks(data []byte) (n int) {
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

// Carriable reads as much of a file as carrying it needs: it has 1 byte to 1 MiB, is
// a mapping of not too many values, its sender's name is legal, and no reader finds another sender in it.
// Whether the message is valid, and which fields it has, is the business of its
// receiver. The error is for people.
func Carriable(data []byte) (Message, error) {
	if len(data) == 0 {
		return Message{}, errors.New("the file is empty")
	}
	if n := marks(data); n > maxMarks {
		return Message{}, fmt.Errorf("it has %d commas, brackets, dashes, colons and the like, where values can begin: a message may have %d: shorten it, or send it in parts", n, maxMarks)
	}
	d, err := Parse(data)
	if err != nil {
		return Message{}, err
	}
	m := d.Message()
	if !LegalAgent(m.From) {
		return Message{}, fmt.Errorf("field 'from' must match %s", agentPattern)
	}
	if err := d.checkSender(m.From); err != nil {
		return Message{}, err
	}
	return m, nil
}

// Who a message is from is proved for what Parse reads. Others read the same file in
// other ways: the first of equal keys, the first line that begins with "from:", a merge
// for "<<", a line break where this library sees none, and language models read the text
// as it looks. A file in which one of them could find another sender is refused.

// checkSender refuses a file in which some reader finds another sender than from.
func (d *Document) checkSender(from string) error {
	if err := checkKeys(d.root); err != nil {
		return err
	}
	if err := d.checkBreaks(from); err != nil {
		return err
	}
	return d.checkLines(from)
}

// checkKeys refuses a mapping in which a key stands twice, as people read keys, or is "<<".
func checkKeys(root *yaml.Node) error {
	seen := make(map[string]bool)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := resolve(root.Content[i]).Value
		if key == "<<" {
			return fmt.Errorf("line %d: some readers merge what '<<' holds into the message: write its fields out", root.Content[i].Line)
		}
		if seen[look(key)] {
			return fmt.Errorf("line %d: field %.80s is there twice, and readers differ in which they take: keep one", root.Content[i].Line, quote(key))
		}
		seen[look(key)] = true
	}
	return nil
}

// look is a key as it looks to people, and to readers that ignore case: its letters and
// digits.
func look(key string) string {
	return strings.Map(func(r rune) rune {
		r = alike(r)
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// alike is the ASCII letter that a letter looks like, of those that have one in another
// width or style and of those in "from"; or the letter itself.
func alike(r rune) rune {
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
	if letter, ok := fromAlike[r]; ok {
		return letter
	}
	return r
}

// fromAlike are letters that look like those of "from".
var fromAlike = func() map[rune]rune {
	all := make(map[rune]rune)
	for letter, others := range map[rune]string{'f': "ƒꞙꞘſϝϜẝ", 'r': "гᴦⲅꭇꭈʀᴿʳ", 'o': "оОοΟօՕσ௦०ᴏ", 'm': "мМΜᴍⅿⅯ"} {
		for _, r := range others {
			all[r] = letter
		}
	}
	return all
}()

// laterBreaks are line breaks to YAML 1.1, and letters to YAML 1.2.
const laterBreaks = "\u0085\u2028\u2029"

// checkBreaks refuses a file in which a reader of YAML 1.2 finds another sender.
func (d *Document) checkBreaks(from string) error {
	if !bytes.ContainsAny(d.raw, laterBreaks) {
		return nil
	}
	text := bytes.Map(func(r rune) rune {
		if strings.ContainsRune(laterBreaks, r) {
			return '.'
		}
		return r
	}, d.raw)
	root, err := load(text)
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return nil // it is no message to such a reader
	}
	err = checkKeys(root)
	for i := 0; err == nil && i+1 < len(root.Content); i += 2 {
		if look(resolve(root.Content[i]).Value) == "from" && strip(resolve(root.Content[i+1]).Value) != from {
			err = errors.New("it is from somebody else")
		}
	}
	if err != nil {
		return fmt.Errorf("to readers that take U+0085, U+2028 and U+2029 for letters: %w (write these as escapes in double quotes)", err)
	}
	return nil
}

var (
	// senderLine is the text from the key on in which each reader finds the same sender.
	senderLine = regexp.MustCompile(`^(?:from|"from"|'from')[ \t]*:[ \t]*["']?([A-Za-z0-9._-]+)["']?(?:[ \t]*[,}]|[ \t]*$|[ \t]+#)`)
	// senderLike is in the text before it of which no reader finds a sender.
	senderLike = regexp.MustCompile(`(?i)from[^\pL\pN]*:`)
)

// checkLines refuses a file in which a reader of lines finds another sender: "from" and
// the name stand in one line, in plain letters; no line before it begins like that; and
// none after it that is at the margin begins like a field and is none.
func (d *Document) checkLines(from string) error {
	margin := make(map[int]string) // keys there, by their lines
	var sender *yaml.Node
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		key := d.root.Content[i]
		if resolve(key).Value == "from" {
			sender = key
		}
		if key.Column == 1 {
			margin[key.Line] = resolve(key).Value
		}
	}
	found := false
	for n, line := range linesOf(bytes.TrimPrefix(d.raw, []byte(bom))) {
		if n == sender.Line {
			before, after := cutColumn(line.text, sender.Column)
			m := senderLine.FindStringSubmatch(after)
			if m == nil || m[1] != from || !line.whole || senderLike.MatchString(before) {
				return fmt.Errorf("line %d: field 'from' and the name must stand in one line, in plain letters: from: %s", n, from)
			}
			found = true
			continue
		}
		before, _, isField := strings.Cut(line.text, ":")
		if !isField {
			continue
		}
		switch key := strings.Trim(before, "\"' \t"); {
		case look(before) == "from" && !found:
			return fmt.Errorf("line %d looks like field 'from', and is not: put that before it", n)
		case strings.ContainsAny(before[:min(1, len(before))], " \t#-"):
		case look(before) == "from", (required(key) || slices.Contains(optional[:], key)) && margin[n] != key:
			return fmt.Errorf("line %d looks like field '%s', and is not: begin it with a space", n, look(before))
		}
	}
	return nil
}

// cutColumn cuts a line before a column, which counts letters from 1.
func cutColumn(line string, column int) (before, after string) {
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
	whole bool // it begins and ends where readers that know no break but LF and CR LF see it too
}

// linesOf yields the lines of a text with their numbers, from 1. They end at what ends a
// line in YAML 1.1: no other reader has further breaks among the letters that are allowed.
func linesOf(text []byte) iter.Seq2[int, line] {
	return func(yield func(int, line) bool) {
		whole := true
		for n := 1; len(text) > 0; n++ {
			end := bytes.IndexFunc(text, func(r rune) bool {
				return r == '\n' || r == '\r' || r >= 0x80 && strings.ContainsRune(laterBreaks, r)
			})
			if end < 0 {
				yield(n, line{string(text), whole})
				return
			}
			_, width := utf8.DecodeRune(text[end:])
			if bytes.HasPrefix(text[end:], []byte("\r\n")) {
				width = 2
			}
			known := text[end+width-1] == '\n'
			if !yield(n, line{string(text[:end]), whole && known}) {
				return
			}
			text, whole = text[end+width:], known
		}
	}
}
