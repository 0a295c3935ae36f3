//go:build !linux

package durable

// RenameNew renames a file, never over another: then the error is [io/fs.ErrExist].
func RenameNew(from, to string) error { return linkNew(from, to) }
