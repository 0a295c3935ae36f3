package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
	"go.yaml.in/yaml/v3"
)

// isMessageName reports whether a file of this name can be a message. The names of temporary
// files begin with a dot, whichever tool makes them.
func isMessageName(name string) bool {
	return strings.HasSuffix(name, ".yaml") && !strings.HasPrefix(name, ".")
}

// readFile reads a regular file of at most [message.MaxBytes] bytes. It refuses a link, and does
// not block on other kinds of files. Of a larger file it returns only the info.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, nil, errors.New("a link: only regular files are read")
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), message.MaxBytes)+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, message.MaxBytes+1)); err != nil {
		return nil, nil, err
	}
	if data.Len() > message.MaxBytes {
		return nil, info, fmt.Errorf("over %d bytes", message.MaxBytes)
	}
	return data.Bytes(), info, nil
}

// ReadFileOrLink reads a file like [readFile], but follows a link, because a person has typed the
// path.
func ReadFileOrLink(path string) ([]byte, error) {
	return durable.ReadRegularFile(path, message.MaxBytes)
}

// hasFileContent reports whether a file has the content data. It returns false if data is nil.
func hasFileContent(path string, data []byte) bool {
	b, _, err := readFile(path)
	return err == nil && data != nil && bytes.Equal(b, data)
}

// loadYAMLFile reads a YAML file beside mailboxes, such as config.yaml.
func loadYAMLFile(path string) (*yaml.Node, error) {
	b, err := ReadFileOrLink(path)
	if err != nil {
		return nil, err
	}
	return message.LoadYAML(b)
}
