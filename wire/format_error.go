package wire

import "errors"

// FormatError says that bytes are not what the protocol prescribes.
type FormatError struct {
	Field   string // the field or item at fault; "": the whole
	Problem string // what is wrong with it and what is expected instead
}

func (e *FormatError) Error() string {
	if e.Field == "" {
		return e.Problem
	}
	return e.Field + ": " + e.Problem
}

// OwnWords returns the text. No part of it was written by a peer.
func (e *FormatError) OwnWords() string { return e.Error() }

func newFormatError(field, problem string) error {
	return &FormatError{Field: field, Problem: problem}
}

// addErrorFieldName returns err with the field that it is in, unless it names one itself.
func addErrorFieldName(field string, err error) error {
	if fe, ok := errors.AsType[*FormatError](err); ok && fe.Field == "" {
		return newFormatError(field, fe.Problem)
	}
	return err
}
