//go:build !linux

package durable

// RenameIfAbsent renames a file, never over another: then the error is [io/fs.ErrExist].
func RenameIfAbsent(from, to string) error { return renameByLink(from, to) }
