//go:build !linux

package mailbox

// move renames a file, never over another: then the error is fs.ErrExist.
func move(from, to string) error { return linkOver(from, to) }
