package files

import (
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/acpd/acpd/client"
)

const (
	maxName      = 255 // bytes
	maxExtension = 16  // bytes that stay if a name is cut
)

// unfit matches the characters that Windows allows in no name.
var unfit = regexp.MustCompile(`[<>:"|?*]`)

// deviceName matches the names that Windows gives to devices, with any extension.
var deviceName = regexp.MustCompile(`^(?i:con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)`)

// cleanName makes a name that any system accepts from the name that a peer gives a file. It keeps the last component,
// without control characters and invisible ones. It replaces what is unfit, or would be an option of a command, so
// that no file is refused for its name.
func cleanName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.TrimSpace(unfit.ReplaceAllLiteralString(client.Line(name), "_"))
	if len(name) > maxName {
		extension := path.Ext(name)
		if len(extension) > maxExtension {
			extension = ""
		}
		name = strings.ToValidUTF8(name[:maxName-len(extension)], "") + extension
	}
	name = strings.TrimRightFunc(name, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	switch {
	case name == "":
		return "file"
	case name[0] == '.' || name[0] == '-' || deviceName.MatchString(name):
		return "_" + name[1:]
	}
	return name
}
