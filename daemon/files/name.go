package files

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/client"
)

const (
	maxName      = 255 // bytes
	maxExtension = 16  // bytes that stay if a name is cut
	noName       = "file"
)

// deviceNames are those that Windows gives to no file, whatever follows behind a dot.
var deviceNames = []string{"con", "prn", "aux", "nul", "conin$", "conout$"}

// cleanName returns the name that a peer gives a file as a name that any system takes and that shows what it is: the
// last component, without what a terminal obeys or nobody sees. What is not fit is replaced, so that the file comes.
func cleanName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`<>:"|?*`, r) {
			return '_'
		}
		return r
	}, client.Line(name))
	name = strings.TrimSpace(name)
	if len(name) > maxName {
		extension := path.Ext(name)
		if len(extension) > maxExtension {
			extension = ""
		}
		stem := name[:maxName-len(extension)]
		for !utf8.ValidString(stem) {
			stem = stem[:len(stem)-1]
		}
		name = stem + extension
	}
	if name = strings.TrimRightFunc(name, func(r rune) bool { return r == '.' || unicode.IsSpace(r) }); name == "" {
		return noName
	}
	if name[0] == '.' {
		name = "_" + name[1:]
	}
	if isDeviceName(name) {
		name = "_" + name[1:]
	}
	return name
}

// isDeviceName reports whether Windows takes a name for a device.
func isDeviceName(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	stem = strings.TrimRight(stem, " ")
	if slices.Contains(deviceNames, stem) {
		return true
	}
	number, ok := strings.CutPrefix(stem, "com")
	if !ok {
		number, ok = strings.CutPrefix(stem, "lpt")
	}
	return ok && len([]rune(number)) == 1 && strings.Contains("0123456789¹²³", number)
}
