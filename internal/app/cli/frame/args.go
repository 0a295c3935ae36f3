package frame

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// checkFlagsNotEmpty returns an error if one of these flags is given and empty; without names,
// if any flag is. A variable that is not set in a script must not mean what is meant without
// the flag.
func checkFlagsNotEmpty(cmd *cobra.Command, names ...string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		words, several := f.Value.(pflag.SliceValue)
		empty := f.Value.String() == "" || several && strings.Join(words.GetSlice(), "") == ""
		if empty && (len(names) == 0 || slices.Contains(names, f.Name)) {
			err = UsageErrorf("--%s: empty: give a value, or leave the flag out", f.Name)
		}
	})
	return err
}

// NamedArgs checks that a verb gets each of these arguments once; one in brackets may be left
// out. A peer must not be empty, nor an id that nobody has: so a variable that is not set in
// a script is found out before the daemon is asked. If a verb takes no arguments and has verbs below it, a word
// after it is taken for one of those.
func NamedArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(names) == 0 && cmd.HasAvailableSubCommands():
			return checkNoUnknownVerb(cmd, args)
		case len(args) > len(names):
			return fmt.Errorf("%q is one argument too many: %s", args[len(names)], adviseTooMany(names))
		case len(args) < len(names) && names[len(args)][0] != '[':
			return unfitArg{names[len(args)], "missing"}
		}
		for i, arg := range args {
			name := strings.Trim(names[i], "[]")
			switch id, err := identity.ParseID(arg); {
			case arg == "" && (name == "QUESTION" || name == "TASK"):
				return unfitArg{name, "empty"}
			case name != "PEER" && name != "ID or NAME":
			case strings.TrimSpace(arg) == "":
				return fmt.Errorf("%s is empty", name)
			case err == nil && id.IsZero():
				return fmt.Errorf("%s: %w", name, identity.ErrNobody)
			}
		}
		return nil
	}
}

// ListArgNames returns the arguments in a verb's usage, as [NamedArgs] takes them: PEER for PEER[/AGENT], and
// [PEER] for [PEER[/AGENT]].
func ListArgNames(cmd *cobra.Command) (names []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "--") {
			break
		}
		inner, optional := strings.CutPrefix(word, "[")
		name, _, detailed := strings.Cut(inner, "[")
		switch {
		case detailed && optional:
			name = "[" + name + "]"
		case optional:
			name = word
		}
		names = append(names, name)
	}
	return names
}

// addVerbDefaults sets how a verb's arguments are checked and completed, unless the verb does, and how its help
// writes durations. The former follow the usage. It does the same with the verbs below cmd.
func (f *Frame) addVerbDefaults(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = NamedArgs(ListArgNames(cmd)...)
	}
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error { return f.withInstead(cmd, args, check(cmd, args)) }
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = f.completeByUsage
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if d, err := time.ParseDuration(flag.DefValue); err == nil && flag.Value.Type() == "duration" {
			flag.DefValue = kinds.FormatDuration(d)
		}
	})
	for _, verb := range cmd.Commands() {
		f.addVerbDefaults(verb)
	}
}

// completeByUsage completes a first argument that is PEER or FILE, and nothing else.
func (f *Frame) completeByUsage(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch FirstOrEmpty(ListArgNames(cmd)) {
	case "PEER", "[PEER]":
		return f.CompletePeers(cmd, args, begun, client.PeerConnected, client.PeerTrusted)
	case "FILE":
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// FirstOrEmpty returns the first argument, or "".
func FirstOrEmpty(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// CheckValuesNotEmpty returns an error if an argument other than TEXT, or any flag, is empty. So a
// variable that is not set in a script does not mean everybody, or the operator.
func CheckValuesNotEmpty(cmd *cobra.Command, args []string) error {
	err := checkFlagsNotEmpty(cmd)
	for i, name := range ListArgNames(cmd) {
		if i < len(args) && args[i] == "" && name != "TEXT" {
			err = UsageErrorf("%s is empty", strings.Trim(name, "[]"))
		}
	}
	return err
}

// ReadMilliseconds returns the value of a duration flag in milliseconds, 0 if it is not given.
// A value under 1 ms or over most is an error.
func ReadMilliseconds(cmd *cobra.Command, name string, d, most time.Duration) (uint64, error) {
	if cmd.Flags().Changed(name) && (d < time.Millisecond || d > most) {
		return 0, UsageErrorf("--%s: expected a duration of 1ms to %s", name, kinds.FormatDuration(most))
	}
	return uint64(d.Milliseconds()), nil
}

// ListGiven returns those of the flags that are given.
func ListGiven(cmd *cobra.Command, names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !cmd.Flags().Changed(name) })
}

// textArgs are the arguments that are words of a person's, which a shell takes apart at spaces.
var textArgs = []string{"QUESTION", "TASK", "TEXT", "REASON", "DATA", "NAME"}

// pipedArgs are arguments that may be -: standard input.
var pipedArgs = []string{"QUESTION", "TASK", "TEXT", "DATA"}

// adviseTooMany returns what to do if a verb with these arguments gets one more.
func adviseTooMany(names []string) string {
	if len(names) == 0 {
		return "leave it out"
	}
	last := strings.Trim(names[len(names)-1], "[]")
	switch {
	case slices.Contains(textArgs, last):
		return "put what contains spaces in quotes"
	case len(names) == 1:
		return "expected one " + last
	}
	return "the last one is " + last
}

// isKeepValue matches what can be only a value of --keep, and is the name of no peer that anybody uses.
var isKeepValue = regexp.MustCompile(`^([0-9]+(ms|[smhd]))+$`)

// joinKeepValue returns the arguments of a command line with "--keep 3d" as "--keep=3d", because a flag that may stand
// without a value takes none from the argument that follows. Any other argument behind --keep is left as it is.
func joinKeepValue(args []string) []string {
	args = slices.Clone(args)
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		if args[i] == "--keep" && isKeepValue.MatchString(args[i+1]) {
			args = slices.Replace(args, i, i+2, "--keep="+args[i+1])
		}
	}
	return args
}

// ParseMessageID parses an id. Its error says what was to be one.
func ParseMessageID(name, text string) (wire.MessageID, error) {
	id, err := wire.ParseMessageID(text)
	if err != nil {
		return id, UsageErrorf("%s: %w", name, err)
	}
	return id, nil
}

// LeastIDPrefix is the number of characters with which an id can be abbreviated, as a peer's.
const LeastIDPrefix = 6

// IsIDPrefix reports whether text is the beginning of an id's text form, in lower case and long enough.
func IsIDPrefix(text string) bool {
	const form = "00000000-0000-0000-0000-000000000000"
	if len(text) < LeastIDPrefix || len(text) >= len(form) {
		return false
	}
	for i := range len(text) {
		isDigit := '0' <= text[i] && text[i] <= '9' || 'a' <= text[i] && text[i] <= 'f'
		if isDigit != (form[i] == '0') || !isDigit && text[i] != '-' {
			return false
		}
	}
	return true
}
