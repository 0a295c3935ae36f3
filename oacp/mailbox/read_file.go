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

	"github.com/acpd/acpd/oacp/message"
	"go.yaml.in/yaml/v3"
)

// isMessageName reports whether a file of this name can be a message. The names of temporary
// files begin with a dot, whichever tool makes them.
func isMessageName(name string) bool {
	return strings.HasSuffix(name, ".yaml") && !strings.HasPrefix(name, ".")
}

// readFile reads a regular file of at most [message.MaxBytes] bytes. It refuses a link, and does
// not block on other kinds of files.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	return readLimitedFile(path, syscall.O_NOFOLLOW, message.MaxBytes)
}

// ReadFileOrLink reads a file like [readFile], but follows a link, because a person has typed the
// path. Of a larger file it returns the beginning, one byte more than [message.MaxBytes].
func ReadFileOrLink(path string) ([]byte, error) {
	data, _, err := readFilePrefix(path, 0, message.MaxBytes)
	return data, err
}

// readLimitedFile reads a file, and refuses one over limit bytes. It opens it with flag.
func readLimitedFile(path string, flag int, limit int64) ([]byte, fs.FileInfo, error) {
	data, info, err := readFilePrefix(path, flag, limit)
	if int64(len(data)) > limit {
		return nil, info, fmt.Errorf("over %d bytes", limit)
	}
	return data, info, err
}

// readFilePrefix reads up to limit bytes of a file, and one more if there are more.
func readFilePrefix(path string, flag int, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flag, 0)
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
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, nil, err
	}
	return data.Bytes(), info, nil
}

// hasFileContent reports whether a file has the content data. It returns false if data is nil.
func hasFileContent(path string, data []byte) bool {
	b, _, err := readFile(path)
	return err == nil && data != nil && bytes.Equal(b, data)
}

// loadYAMLFile reads a YAML file beside mailboxes, such as config.yaml.
func loadYAMLFile(path string) (*yaml.Node, error) {
	b, _, err := readLimitedFile(path, 0, message.MaxBytes)
	if err != nil {
		return nil, err
	}
	return message.LoadYAML(b)
}
