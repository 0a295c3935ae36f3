package durable

import (
	"io"
	"os"
	"syscall"

	"github.com/acpd/acpd/internal/ownwords"
)

// ReadRegularFile reads a regular file of at most limit bytes, or the one to which a symbolic link
// leads. It does not block on a named pipe. The error wraps [io/fs.ErrNotExist] if the file does not exist.
func ReadRegularFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a named pipe would wait for its other end
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ownwords.Errorf("%s is no regular file: put one in its place, or remove it", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = ownwords.Errorf("%s is over %d bytes: shorten it", path, limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
