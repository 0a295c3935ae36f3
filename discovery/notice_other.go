//go:build !linux

package discovery

import (
	"errors"
	"io"
)

// openInterfaceNotices fails: the interfaces are polled.
func openInterfaceNotices() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }
