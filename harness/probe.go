package harness

import (
	"errors"
	"sync"
)

// verdict keeps whether a version of a program has what waking needs, as a probe has found it. A probe
// begins no turn and shows nothing to the user. It says nothing of safety: who is asked before tools run
// is read anew at every wake.
type verdict struct {
	mu      sync.Mutex // guards what follows
	version string     // for which the rest is valid; empty before the first probe
	err     error
}

// judge returns what the probe of that version has found: nil, or an error of [lacks]. It calls probe if
// that version was not probed yet, also while another call does. Any other error of probe is returned, and not kept.
func (v *verdict) judge(version string, probe func() error) error {
	v.mu.Lock()
	known, err := v.version == version, v.err
	v.mu.Unlock()
	if known {
		return err
	}
	if err = probe(); err == nil || errors.Is(err, ErrUnsupported) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.version, v.err = version, err
	}
	return err
}

// lacks returns the error of a program without what waking needs, such as "codex 0.180.0 cannot be woken:
// it has no thread/inject_items". what is in words of this program's own.
func lacks(program, version, what string) error {
	return &Error{Harness: program, Version: version, Err: ErrUnsupported, Saw: "it has no " + what}
}
