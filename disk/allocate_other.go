//go:build !linux

package disk

import "os"

func allocateBlocks(f *os.File, offset, size int64) error { return writeRandomBytes(f, offset, size) }
