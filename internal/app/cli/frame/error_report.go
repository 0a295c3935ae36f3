package frame

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// timeFlags are the names that verbs have for how long something may take. Each is tried where
// another one was meant.
var timeFlags = []string{"deadline", "timeout", "wait", "expires"}

// explainUnknownFlag adds to the error of a flag that cmd does not have what may have been meant:
// a flag of another name, or text.
func (f *Frame) explainUnknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	if err := reportRemoved(cmd, cmd.Flags().Arg(0)); err != nil { // a flag of a verb that was removed
		return err
	}
	if unknown.GetSpecifiedShortnames() != "" {
		if len(splitUsage(cmd)) == 0 {
			return unknown
		}
		return fmt.Errorf("%w: put -- before text that begins with a hyphen", unknown)
	}
	if err := reportRemoved(cmd, "--"+unknown.GetSpecifiedName()); err != nil {
		return err
	}
	if slices.Contains(timeFlags, unknown.GetSpecifiedName()) {
		for _, name := range timeFlags {
			if cmd.Flags().Lookup(name) != nil {
				return fmt.Errorf("%w: did you mean --%s?", unknown, name)
			}
		}
	}
	names := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares only verbs
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := names.SuggestionsFor(unknown.GetSpecifiedName()); len(near) > 0 {
		return fmt.Errorf("%w: did you mean --%s?", unknown, strings.Join(near, " or --"))
	}
	return unknown
}

// explainFlagError returns the error of a flag in terms of what the flag expects, or of the
// flags that exist.
func (f *Frame) explainFlagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return f.explainUnknownFlag(cmd, unknown)
	}
	if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		flag := bare.GetFlag()
		_, usage := pflag.UnquoteUsage(flag)
		return fmt.Errorf("--%s: its value is missing: %s", flag.Name, usage)
	}
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	expected, ok := map[string]string{
		"int": "a whole number", "uint64": "a whole number, 0 or more", "duration": "a duration like 30s or 1h30m", "bool": "true or false",
	}[wrong.GetFlag().Value.Type()]
	if !ok {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
	}
	return fmt.Errorf("--%s: %.64q: expected %s", wrong.GetFlag().Name, wrong.GetValue(), expected)
}

// reportError tells why a command failed, and returns the exit code.
func (f *Frame) reportError(ctx context.Context, cmd *cobra.Command, args []string, err error) int {
	if code, ok := errors.AsType[Exit](err); ok {
		return int(code)
	}
	e, code := f.ClassifyError(ctx, err)
	told := *e
	told.Message = typedRemedies.Replace(e.Message)
	if e.From == "" && f.understood {
		told.Message = nameTimeFlag(cmd, translateParam(cmd, told.Message))
		if e.Code == kinds.Invalid && code == ExitLocal && concernsCommandLine(cmd, told.Message) {
			code = ExitUsage
		}
	}
	if e.Code == kinds.TooLarge && e.From == "" && len(f.read) > 0 {
		told.Message = strings.Join(f.read, ", ") + ": " + trimVerb(cmd, told.Message)
	}
	if e.From != "" && f.ForModel {
		f.PrintErrorForModel(ctx, e)
		told.From, told.Message = "", f.FindPetname(ctx, e.From)+" answered with an error, which is on standard output"
	}
	if h, ok := errors.AsType[hint](err); ok {
		told.Message += "; " + h.next
	}
	instead, hasInstead := errors.AsType[Instead](err)
	e = &told
	if f.JSON || !f.understood && wantsJSON(args) {
		if hasInstead {
			e.Message += "; type: " + instead.Type
		}
		if f.PrintJSON(struct {
			Error *kinds.Error `json:"error"`
		}{e}) == nil {
			return code
		}
	}
	message := trimVerb(cmd, client.Text(e.Message)) // which stands before it
	if e.From != "" {
		message = f.DescribeError(ctx, e)
	}
	fmt.Fprintln(f.Err, f.WrapTalk(cmd.CommandPath()+": "+message+DescribeDelivery(e)+f.DescribeQuoted(e)))
	switch {
	case hasInstead:
		fmt.Fprintf(f.Err, "Type: %s\n", instead.Type)
	case code == ExitUsage:
		fmt.Fprintf(f.Err, "See: %s --help\n", cmd.CommandPath())
	}
	return code
}

// DescribeError returns the message of an error for a person. A peer's words are on one line, behind its
// name: what looks like the next line would be its own.
func (f *Frame) DescribeError(ctx context.Context, e *kinds.Error) string {
	if e.From == "" {
		return client.Text(e.Message)
	}
	return f.FindPetname(ctx, e.From) + " says: " + client.Line(e.Message)
}

// DescribeQuoted returns the text of another program in an error, as a line that follows the error for a person. It
// returns "" without such a text, or if a model reads along.
func (f *Frame) DescribeQuoted(e *kinds.Error) string {
	if e.Quoted == "" || f.ForModel {
		return ""
	}
	return "\nit says: " + ownwords.Quote(e.Quoted)
}

// PrintErrorForModel prints an error that a peer raised for a model.
func (f *Frame) PrintErrorForModel(ctx context.Context, e *kinds.Error) {
	m := client.PeerMessage{Peer: f.FindPetname(ctx, e.From), Kind: kinds.KindError, Payload: kinds.EncodePayload(e.SanitizeForPeer())}
	m.ID, _ = identity.ParseID(e.From)
	f.PrintForModel(m)
}

// typedRemedies replaces remedies of the daemon's by what is typed. Of those with the same id WithRepeatID has left
// some: the verbs in question do no harm if they run twice.
var typedRemedies = strings.NewReplacer("; peers lists them", "; acpctl peers lists them", ": see tasks", ": see acpctl tasks", "repeat it with the same id", "try again", "repeat with the same id", "try again")

// nameTimeFlag adds the verb's flag for it to the remedy to allow more time.
func nameTimeFlag(cmd *cobra.Command, message string) string {
	for _, name := range []string{"deadline", "timeout"} {
		if cmd.Flags().Lookup(name) != nil {
			return strings.Replace(message, "allow more time", "allow more time (--"+name+")", 1)
		}
	}
	return message
}

// translateParam replaces the param with which a daemon's error begins by the param's name on the
// command line.
func translateParam(cmd *cobra.Command, message string) string {
	param, rest, ok := strings.Cut(strings.TrimPrefix(trimVerb(cmd, message), client.MethodAttach+": "), ": ")
	flag := strings.ReplaceAll(param, "_", "-")
	switch {
	case !ok:
	case strings.HasPrefix(rest, "connected to "), strings.HasPrefix(rest, "the daemon "), strings.HasPrefix(param, "oacp."):
		return rest // before that stands the method, which may be called as a flag is
	case flag == "parent" && !cmd.Flags().Changed(flag):
		return "ACP_ID: " + rest
	case cmd.Flags().Lookup(flag) != nil:
		return "--" + flag + ": " + rest
	case cmd.Flags().Lookup(strings.TrimSuffix(flag, "s")) != nil: // a flag that is given for each of a list
		return "--" + strings.TrimSuffix(flag, "s") + ": " + rest
	case (param == "peer" || param == "peers") && slices.Contains(splitUsage(cmd), "PEER"):
		return "PEER: " + rest
	case param == "to" && !slices.Contains(splitUsage(cmd), "PEER"):
		return "AGENT: " + rest
	case param == "to":
		return "PEER: " + rest
	case param == "name" && slices.Contains(splitUsage(cmd), "NAME"):
		return "NAME: " + rest
	case param == "id":
		return "ID: " + rest
	}
	return message
}

// concernsCommandLine reports whether a message is about the command line: whether it begins with
// a word of the usage, except ids and names. Their form was checked before, so that the
// daemon's message is about what the daemon knows.
func concernsCommandLine(cmd *cobra.Command, message string) bool {
	word, _, ok := strings.Cut(trimVerb(cmd, message), ": ")
	if named := quoted.FindStringSubmatch(word); ok && named != nil {
		return cmd.Flags().Lookup(named[1]) != nil || slices.Contains(splitUsage(cmd), strings.ToUpper(named[1]))
	}
	if word == "--id" || word == "ID" || word == "--name" || word == "NAME" {
		return false
	}
	if flag, is := strings.CutPrefix(word, "--"); ok && is {
		return cmd.Flags().Lookup(flag) != nil
	}
	return ok && (word == "ACP_ID" || slices.Contains(splitUsage(cmd), word))
}

// quoted matches what was typed and what it is, as in: project "../demo".
var quoted = regexp.MustCompile(`^([a-z]+) "[^"]*"$`)

// splitUsage returns the words in a verb's usage, without brackets and dots.
func splitUsage(cmd *cobra.Command) []string {
	_, words, _ := strings.Cut(cmd.Use, " ")
	return strings.FieldsFunc(words, func(r rune) bool { return strings.ContainsRune(" []/,…|", r) })
}

// wantsJSON reports whether a command line that could not be parsed contains --json.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// trimVerb returns an error's text without the verb, or the method, that stands before it: a verb
// below another one has a method with a dot, like wake.allow.
func trimVerb(cmd *cobra.Command, message string) string {
	if cmd.HasParent() {
		message = strings.TrimPrefix(message, cmd.Parent().Name()+"."+cmd.Name()+": ")
	}
	for _, method := range []string{client.MethodFileSend, client.MethodFileTake} { // of verbs with other names
		message = strings.TrimPrefix(message, method+": ")
	}
	return strings.TrimPrefix(message, cmd.Name()+": ")
}
