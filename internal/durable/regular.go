package durable

import (
	"fmt"
	"io"
	"os"
)

// ReadRegularFile reads a regular file of at most limit bytes, or the one to which a symbolic link
// leads. It waits for no named pipe. The error wraps [io/fs.ErrNotExist] if there is no file.
func ReadRegularFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path) // first: to open a named pipe waits for its other end
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: put one in its place, or remove it", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is over %d bytes: shorten it", path, limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
