package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// Exit codes beside those of the code table.
const (
	exitLocal       = 1
	exitUsage       = 2
	exitTimeout     = 3
	exitRefused     = 4
	exitFailed      = 7
	exitInterrupted = 130
)

// usageError says that the command line is wrong.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hint is an error that ends with what can be typed next.
type hint struct {
	error
	next string
}

func (h hint) Unwrap() error { return h.error }

const aDuration = "a duration like 30s or 1h30m"

var (
	duration = regexp.MustCompile(`^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)
	limit    = regexp.MustCompile(`at most (\w+)`)
)

// longest is the longest duration that a flag takes: what its usage says, else all that Go has.
func longest(usage string) string {
	if most := limit.FindStringSubmatch(usage); most != nil {
		return most[1]
	}
	return fmt.Sprintf("%dh", time.Duration(math.MaxInt64)/time.Hour)
}

// flagError says what a flag expects, where Go's parsers say what they met.
func flagError(_ *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	expected, ok := map[string]string{
		"int": "a whole number", "uint64": "a whole number, 0 or more", "duration": aDuration, "bool": "true or false",
	}[wrong.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	if expected == aDuration && duration.MatchString(wrong.GetValue()) { // it is too long for Go
		expected = "a duration of at most " + longest(wrong.GetFlag().Usage)
	}
	return fmt.Errorf("--%s: %.64q: expected %s", wrong.GetFlag().Name, wrong.GetValue(), expected)
}

// exit ends the process with a code; its reason has been told.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// report tells why a command failed and returns the exit code.
func (a *app) report(ctx context.Context, cmd *cobra.Command, args []string, err error) int {
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	e, code := a.judge(ctx, err)
	told := *e
	told.Message = sameID.Replace(e.Message)
	if e.From == "" && a.begun {
		told.Message = inWords(cmd, told.Message)
		if e.Code == kinds.Invalid && code == exitLocal && isTyped(cmd, told.Message) {
			code = exitUsage
		}
	}
	if e.Code == kinds.TooLarge && e.From == "" && len(a.read) > 0 {
		told.Message = strings.Join(a.read, ", ") + ": " + strings.TrimPrefix(told.Message, cmd.Name()+": ")
	}
	if h, ok := errors.AsType[hint](err); ok {
		told.Message += "; " + h.next
	}
	e = &told
	if a.json || !a.begun && asksJSON(args) {
		if a.print(struct {
			Error *kinds.Error `json:"error"`
		}{e}) == nil {
			return code
		}
	}
	message := strings.TrimPrefix(client.Text(e.Message), cmd.Name()+": ") // which stands before it
	if e.From != "" {                                                      // on one line: what looks like the next one would be its own
		message = a.called(ctx, e.From) + " says: " + client.Line(message)
	}
	message += arrived(e)
	fmt.Fprintf(a.err, "%s: %s\n", cmd.CommandPath(), message)
	if code == exitUsage {
		fmt.Fprintf(a.err, "See: %s --help\n", cmd.CommandPath())
	}
	return code
}

// called is what the peer with an id is called here.
func (a *app) called(ctx context.Context, id string) string {
	if peers, err := a.daemon.Peers(ctx); err == nil {
		for _, p := range peers {
			if p.ID.String() == id && p.Name != "" {
				return p.Name
			}
		}
	}
	return client.Line(id)
}

// sameID replaces a remedy of the daemon's that repeatable has not put in words of
// the command line: these calls do no harm twice.
var sameID = strings.NewReplacer("repeat it with the same id", "try again", "repeat with the same id", "try again")

// inWords gives the param that a daemon's error begins with the name that it has on
// the command line.
func inWords(cmd *cobra.Command, message string) string {
	param, rest, ok := strings.Cut(strings.TrimPrefix(message, client.MethodAttach+": "), ": ")
	flag := strings.ReplaceAll(param, "_", "-")
	switch {
	case !ok:
	case strings.HasPrefix(rest, "connected to "), strings.HasPrefix(rest, "the daemon "), strings.HasPrefix(param, "oacp."):
		return rest // before that stands the method, which may be called as a flag is
	case flag == "parent" && !cmd.Flags().Changed(flag):
		return "ACP_ID: " + rest
	case cmd.Flags().Lookup(flag) != nil:
		return "--" + flag + ": " + rest
	case param == "to" && !slices.Contains(usageWords(cmd), "PEER"):
		return "AGENT: " + rest
	case param == "to":
		return "PEER: " + rest
	case param == "id":
		return "ID: " + rest
	}
	return message
}

// isTyped reports whether a message begins with a word of the usage, so that it is about
// what was typed. The form of ids and names has been checked before the daemon was
// asked: what it says of them is about what it knows.
func isTyped(cmd *cobra.Command, message string) bool {
	word, _, ok := strings.Cut(strings.TrimPrefix(message, cmd.Name()+": "), ": ")
	if named := quoted.FindStringSubmatch(word); ok && named != nil {
		return cmd.Flags().Lookup(named[1]) != nil || slices.Contains(usageWords(cmd), strings.ToUpper(named[1]))
	}
	if word == "--id" || word == "ID" || word == "--name" {
		return false
	}
	if flag, is := strings.CutPrefix(word, "--"); ok && is {
		return cmd.Flags().Lookup(flag) != nil
	}
	return ok && (word == "ACP_ID" || slices.Contains(usageWords(cmd), word))
}

// quoted is what was typed and what it is, as in: project "../demo".
var quoted = regexp.MustCompile(`^([a-z]+) "[^"]*"$`)

// usageWords are the words of a verb's usage, without what stands around them.
func usageWords(cmd *cobra.Command) []string {
	_, words, _ := strings.Cut(cmd.Use, " ")
	return strings.FieldsFunc(words, func(r rune) bool { return strings.ContainsRune(" []/,…", r) })
}

// judge puts an error into the form that is printed, with its exit code.
func (a *app) judge(ctx context.Context, err error) (*kinds.Error, int) {
	_, wrong := errors.AsType[usageError](err)
	coded, isCoded := errors.AsType[*kinds.Error](err)
	switch {
	case ctx.Err() != nil:
		return kinds.Errorf(kinds.Cancelled, "interrupted"), exitInterrupted
	case !a.begun || wrong:
		return kinds.Errorf(kinds.Invalid, "%v", err), exitUsage
	case isCoded:
		return coded, exitOf(coded)
	}
	return kinds.Errorf(kinds.Internal, "%v", err), exitLocal
}

// exitOf is the exit code of the code table, but that what it leaves over is a
// failure of the other side only where that raised it.
func exitOf(e *kinds.Error) int {
	code := e.Code.Info().Exit
	if code == exitFailed && e.From == "" {
		return exitLocal
	}
	return code
}

// asksJSON looks for --json in a command line that could not be read.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}
