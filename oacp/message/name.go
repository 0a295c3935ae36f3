package message

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// IsLegalAgentName reports whether name can name an agent: a letter or digit, then up to 63
// letters, digits, dots, underscores and hyphens.
func IsLegalAgentName(name string) bool {
	return len(name) <= 64 && hasNameCharactersOnly(name) && isAlphanumeric(name[0])
}

// IsLegalFileName reports whether a file of this name can be a message on every machine: it has
// the letters of an agent's name, at most 200 bytes, and ends in ".yaml".
func IsLegalFileName(name string) bool {
	return len(name) <= 200 && hasNameCharactersOnly(name) && isAlphanumeric(name[0]) &&
		len(name) > len(".yaml") && strings.HasSuffix(name, ".yaml")
}

// IsLegalFileSuffix reports whether suffix may stand in a file name: 1 to 64 letters, digits,
// dots, underscores and hyphens.
func IsLegalFileSuffix(suffix string) bool { return len(suffix) <= 64 && hasNameCharactersOnly(suffix) }

func hasNameCharactersOnly(s string) bool {
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// NewMessageID draws the id of a message that sender writes now. The file's name gets another
// random part.
func NewMessageID(now time.Time, sender string) string {
	return fmt.Sprintf("msg-%s-%s-%04x", formatCompactTime(now), sender, drawRandomNumber()&0xffff)
}

// NewMessageFileName draws the name of the file for a message. The suffix, which may be
// empty, is for people; see IsLegalFileSuffix. A name can be drawn twice, so a file must be
// created only if there is none.
func NewMessageFileName(now time.Time, sender, typ, suffix string) string {
	name := fmt.Sprintf("%s_%s_%s_%04x", formatCompactTime(now), sender, typ, drawRandomNumber()&0xffff)
	if suffix != "" {
		name += "_" + suffix
	}
	return name + ".yaml"
}

// NewConversationID draws the id of a conversation that sender begins now.
func NewConversationID(now time.Time, sender string) string {
	return fmt.Sprintf("conv-%s-%s-%06d", now.UTC().Format("20060102"), sender, drawRandomNumber()%1_000_000)
}

func drawRandomNumber() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}
