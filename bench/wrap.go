package main

import (
	"strings"
	"unicode/utf8"
)

// joinParts joins parts into lines of at most so many letters. It does not break a part.
func joinParts(parts []string, letters int) []string {
	lines := parts[:1:1]
	for _, part := range parts[1:] {
		last := &lines[len(lines)-1]
		if utf8.RuneCountInString(*last+termsMark+part) > letters {
			lines = append(lines, part)
			continue
		}
		*last += termsMark + part
	}
	return lines
}

// wrapWords breaks text into lines of at most so many letters. A longer word has a line of its own.
func wrapWords(text string, letters int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > letters {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
