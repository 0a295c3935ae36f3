//go:build !linux

package discovery

import (
	"errors"
	"io"
)

// openNotices fails: the interfaces are polled.
func openNotices() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }
