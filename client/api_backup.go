package client

import "context"

// StateCopy is the result of backup.
type StateCopy struct {
	Path    string `json:"path"`    // of the copy, in the state directory; it lasts as long as the connection
	Bytes   uint64 `json:"bytes"`   // of the copy
	Schema  int    `json:"schema"`  // the version of its tables
	Program string `json:"program"` // the version of the daemon
}

// CopyState makes the daemon copy its state.db, as it is when the call begins. The copy contains all
// that was confirmed before, and the daemon's other files are as new when CopyState returns. The caller
// reads the copy; the daemon removes it when c is closed. The call lasts as long as the daemon lives.
func (c *Client) CopyState(ctx context.Context) (*StateCopy, error) {
	r := new(StateCopy)
	return r, c.callWhileDaemonAlive(ctx, c.Patience, MethodBackup, nil, r)
}
