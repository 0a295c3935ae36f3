package mailbox

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
)

// candidate reports whether a file of this name can be a message. Temporary files
// of every tool begin with a dot.
func candidate(name string) bool {
	return strings.HasSuffix(name, ".yaml") && !strings.HasPrefix(name, ".")
}

// Read reads a regular file of at most [message.MaxBytes] bytes. It follows no link
// at the end of path, and neither blocks on nor disturbs what is not a regular file.
func Read(path string) ([]byte, fs.FileInfo, error) {
	return readAll(path, syscall.O_NOFOLLOW, message.MaxBytes)
}

// ReadNamed is Read for a path that a person typed, which may be a link. Of a file
// that is too large it returns a part, which is too large as well.
func ReadNamed(path string) ([]byte, error) {
	data, _, err := read(path, 0, message.MaxBytes)
	return data, err
}

func readAll(path string, flag int, limit int64) ([]byte, fs.FileInfo, error) {
	data, info, err := read(path, flag, limit)
	if int64(len(data)) > limit {
		return nil, info, fmt.Errorf("over %d bytes", limit)
	}
	return data, info, err
}

// read reads up to limit bytes, and one more if there are more.
func read(path string, flag int, limit int64) ([]byte, fs.FileInfo, error) {
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

// stage writes data, durably, into a temporary file of dir, for what is to become
// name: nobody sees a part of it. A process that dies leaves at most this file, which
// no tool takes for a message (doctor tells, doctor --fix removes it).
func stage(dir, name string, data []byte) (temp string, err error) {
	var random [4]byte
	rand.Read(random[:])
	temp = filepath.Join(dir, "."+name+tempMark+hex.EncodeToString(random[:]))
	if err := durable.Create(temp, data, fileMode); err != nil {
		return "", err
	}
	return temp, nil
}

// What is made here is its user's alone: mail is nobody else's business, and whoever can
// write into an inbox can write in any name.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// tempMark is in the names of temporary files, which must not end in .yaml. The daemon has
// another, since it removes at its start what it has left behind.
const tempMark = ".tmp-acpctl-"

// publish moves a file to name, or to the next name that is free, relative to its
// folder. Where name holds the same bytes already, the file is only removed.
func publish(file, name string, data []byte) (string, error) {
	for n := 1; ; n++ {
		path := filepath.Join(filepath.Dir(file), nth(name, n))
		err := durable.RenameNew(file, path)
		switch {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrExist) || n == maxTwins:
			return "", err
		case holds(path, data):
			return path, os.Remove(file)
		}
	}
}

// maxTwins is how many files may want the same name.
const maxTwins = 1000

// nth is name for n = 1, else name with _n before its ending.
func nth(name string, n int) string {
	if n == 1 {
		return name
	}
	stem := strings.TrimSuffix(name, ".yaml")
	return fmt.Sprintf("%s_%d%s", stem, n, name[len(stem):])
}

func holds(path string, data []byte) bool {
	b, _, err := Read(path)
	return err == nil && data != nil && bytes.Equal(b, data)
}
