// Package packaging holds the files with which systemd starts acpd, as packages install them
// too.
package packaging

import (
	"embed"
	"fmt"
)

//go:embed systemd
var files embed.FS

// ReadFile returns a file below this folder, such as "systemd/user/acpd.service". One that does
// not exist is a mistake of the caller, and panics.
func ReadFile(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("packaging: %v", err))
	}
	return data
}
