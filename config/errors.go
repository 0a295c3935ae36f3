package config

import (
	"errors"

	"github.com/acpd/acpd/internal/yamldoc"
)

// Error is one thing wrong with a configuration file.
type Error yamldoc.Error

func (e *Error) Error() string { return "config: " + (*yamldoc.Error)(e).Error() }

// OwnWords returns the text.
func (e *Error) OwnWords() string { return e.Error() }

// joinErrors joins errs; each becomes an [*Error].
func joinErrors(errs []*yamldoc.Error) error {
	var list []error
	for _, e := range errs {
		list = append(list, (*Error)(e))
	}
	return errors.Join(list...)
}

// ListErrors returns the mistakes in a configuration file that an error of [LoadConfig] or
// [ReadConfig] joins, in the order of the file. It returns nil for any other error.
func ListErrors(err error) (list []*Error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, e := range joined.Unwrap() {
		if wrong, ok := e.(*Error); ok {
			list = append(list, wrong)
		}
	}
	return list
}
