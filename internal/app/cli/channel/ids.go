package channel

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// idForms describes ids, by the words of the usage for them.
var idForms = map[string]struct{ what, prefix, shown string }{
	"INTENT":  {"an intent", intentPrefix, "acpctl channel list shows them in its column INTENT"},
	"CHANNEL": {"a channel", channelPrefix, "acpctl channel list shows them"},
	"MESSAGE": {"a message", "msg_", "acpctl channel tail shows them"},
}

// idTail matches what follows the prefix of an id: digits of the daemon that made it, and a
// ULID.
var idTail = regexp.MustCompile(`^[0-9a-f]{10}_[0-9A-HJKMNP-TV-Z]{26}$`)

// explainMisspeltID replaces the error that something was not found, if an id on the command
// line has a form that no id has. The new error says what the id looks like, and where it is
// shown.
func explainMisspeltID(cmd *cobra.Command, args []string, err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != kinds.NotFound || len(e.Details) == 0 { // not an answer of the daemon that was asked
		return err
	}
	for i, word := range strings.Fields(cmd.Use)[1:] {
		if word = strings.Trim(word, "[]"); i < len(args) {
			if wrong := checkIDForm(word, word, args[i]); wrong != nil {
				return wrong
			}
		}
	}
	if f := cmd.Flags().Lookup("intent"); f != nil && f.Changed {
		if wrong := checkIDForm("INTENT", "--intent", f.Value.String()); wrong != nil {
			return wrong
		}
	}
	return err
}

// checkIDForm returns an error if arg, which was given as called, cannot be the id that word
// means. A channel may have a name instead, also in an intent.
func checkIDForm(word, called, arg string) error {
	form, known := idForms[word]
	if !known {
		return nil
	}
	if word == "CHANNEL" && !strings.HasPrefix(arg, form.prefix) {
		intent, _ := splitChannelName(arg)
		if intent == "" {
			return nil
		}
		form, arg = idForms["INTENT"], intent
	}
	if tail, ok := strings.CutPrefix(arg, form.prefix); ok && idTail.MatchString(tail) {
		return nil
	}
	const example = "0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF"
	return frame.UsageErrorf("%s: %.80q is not the id of %s, like %s%s: %s", called, arg, form.what, form.prefix, example, form.shown)
}

// Prefixes of ids.
const (
	intentPrefix  = "intent_"
	channelPrefix = "chan_"
)
