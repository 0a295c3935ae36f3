package config

import (
	"errors"

	"github.com/acpd/acpd/internal/yamldoc"
)

// Error is one thing wrong with a configuration file.
type Error yamldoc.Error

func (e *Error) Error() string { return "config: " + (*yamldoc.Error)(e).Error() }

// joinErrors joins errs; each becomes an [*Error].
func joinErrors(errs []*yamldoc.Error) error {
	var list []error
	for _, e := range errs {
		list = append(list, (*Error)(e))
	}
	return errors.Join(list...)
}
