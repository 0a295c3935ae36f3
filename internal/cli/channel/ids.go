package channel

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/internal/cli/frame"
	"github.com/acpd/acpd/kinds"
)

// idForms are what ids look like, by the words of the usage that stand for them.
var idForms = map[string]struct{ what, prefix, shown string }{
	"INTENT":  {"an intent", intentID, "acpctl channel list shows them in its column INTENT"},
	"CHANNEL": {"a channel", chanID, "acpctl channel list shows them"},
	"MESSAGE": {"a message", "msg_", "acpctl channel tail shows them"},
}

// idTail is what follows the prefix of an id: digits of the daemon that made it, and a ULID.
var idTail = regexp.MustCompile(`^[0-9a-f]{10}_[0-9A-HJKMNP-TV-Z]{26}$`)

// misspelt says what an id looks like, and where it is shown, where something was not
// found and the command line has what no daemon takes for one. Other errors stay.
func misspelt(cmd *cobra.Command, args []string, err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != kinds.NotFound || len(e.Details) == 0 { // not the word of the daemon that was asked
		return err
	}
	for i, word := range strings.Fields(cmd.Use)[1:] {
		if word = strings.Trim(word, "[]"); i < len(args) {
			if wrong := checkForm(word, word, args[i]); wrong != nil {
				return wrong
			}
		}
	}
	if f := cmd.Flags().Lookup("intent"); f != nil && f.Changed {
		if wrong := checkForm("INTENT", "--intent", f.Value.String()); wrong != nil {
			return wrong
		}
	}
	return err
}

// checkForm returns what is wrong with an id that was given as called, nil if it can be
// one. A channel may have a name instead, also in an intent.
func checkForm(word, called, arg string) error {
	form, known := idForms[word]
	if !known {
		return nil
	}
	if word == "CHANNEL" && !strings.HasPrefix(arg, form.prefix) {
		intent, _ := apart(arg)
		if intent == "" {
			return nil
		}
		form, arg = idForms["INTENT"], intent
	}
	if tail, ok := strings.CutPrefix(arg, form.prefix); ok && idTail.MatchString(tail) {
		return nil
	}
	const example = "0a1b2c3d4e_01JD3M8Q2W7ZK5T9XVB4NHC6RF"
	return frame.Usagef("%s: %.80q is not the id of %s, like %s%s: %s", called, arg, form.what, form.prefix, example, form.shown)
}
