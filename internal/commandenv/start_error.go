package commandenv

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/ownwords"
)

// DescribeStartError explains to the owner why a program could not be started. If the interpreter of a script is
// missing, the system reports that the script is missing.
func DescribeStartError(path string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return path + ": it is no program, and its first line is no #!/bin/sh: add that line"
	case !errors.Is(err, fs.ErrNotExist):
		return ownwords.Of(err)
	}
	f, openErr := os.Open(path)
	if openErr != nil {
		return ownwords.Of(err)
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	interpreter, isScript := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "#!")
	switch {
	case !isScript:
		return ownwords.Of(err)
	case strings.HasSuffix(interpreter, "\r"):
		return path + ": its first line ends in CR, which becomes part of the interpreter's name: save it with line feeds only"
	}
	return path + ": its first line names an interpreter that is not there: " + strings.TrimSpace(interpreter) + ": install it, or change the line"
}
