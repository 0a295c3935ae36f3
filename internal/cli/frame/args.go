package frame

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/identity"
)

// refuseEmptyFlags returns an error if a name, an address or a path is empty. A variable that
// is not set in a script must not mean what is meant without the flag.
func refuseEmptyFlags(cmd *cobra.Command) error {
	for _, name := range []string{"home", "name", "addr", "revoke", "key-file"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return Usagef("--%s: empty: give a value, or leave the flag out", name)
		}
	}
	return nil
}

// NamedArgs checks that a verb gets each of these arguments once. A peer must not be empty,
// nor an id that nobody has: a variable that is not set in a script is found out before the
// daemon is asked.
func NamedArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q is one argument too many: put what contains spaces in quotes", args[len(names)])
		}
		for i, name := range names {
			if name != "PEER" && name != "ID or NAME" {
				continue
			}
			switch id, err := identity.ParseID(args[i]); {
			case strings.TrimSpace(args[i]) == "":
				return fmt.Errorf("%s is empty", name)
			case err == nil && id.IsZero():
				return fmt.Errorf("%s: %w", name, identity.ErrNobody)
			}
		}
		return nil
	}
}

// OptionalArgs checks arguments as [NamedArgs] does, if they are given.
func OptionalArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return NamedArgs(names[:min(len(names), len(args))]...)(cmd, args)
	}
}

// FirstArg returns the first argument, "" if there is none.
func FirstArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// RefuseEmpty returns an error if an argument other than TEXT, or any flag, is empty. A
// variable that is not set in a script must not mean everybody, or the operator.
func RefuseEmpty(cmd *cobra.Command, args []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		words, several := f.Value.(pflag.SliceValue)
		if f.Value.String() == "" || several && strings.Join(words.GetSlice(), "") == "" {
			err = Usagef("--%s: empty: give a value, or leave the flag out", f.Name)
		}
	})
	for i, name := range strings.Fields(cmd.Use)[1:] {
		if i < len(args) && args[i] == "" && name != "TEXT" {
			err = Usagef("%s is empty", strings.Trim(name, "[]"))
		}
	}
	return err
}

// MillisecondsFlag returns the value of a duration flag in milliseconds, 0 if it is not given.
// It is an error if it is under 1 ms or over most.
func MillisecondsFlag(cmd *cobra.Command, name string, d, most time.Duration) (uint64, error) {
	if cmd.Flags().Changed(name) && (d < time.Millisecond || d > most) {
		return 0, Usagef("--%s: expected a duration of 1ms to %s", name, most)
	}
	return uint64(d.Milliseconds()), nil
}
