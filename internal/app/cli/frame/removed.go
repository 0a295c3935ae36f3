package frame

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// removed says what to type in the place of a verb or flag that acpctl 0.1.0 had, by its command line.
// A flag of a verb is one of the verbs below it too.
var removed = map[string]string{
	"acpctl oacp validate --strict": "acpctl oacp validate FILE, which has the verdicts of the reference tool",

	"acpctl oacp verify":       "oacp verify, a verb of the reference tool: acpctl checks no signatures",
	"acpctl oacp send --sign":  "oacp send --sign, with the reference tool: acpd carries what it has signed as it is",
	"acpctl oacp reply --sign": "oacp send --sign, with the reference tool: acpd carries what it has signed as it is",
}

// reportRemoved returns the error for a verb or flag of cmd that acpctl 0.1.0 had. For any other word it
// returns nil.
func reportRemoved(cmd *cobra.Command, word string) error {
	if !strings.HasPrefix(word, "--") {
		if instead := removed[cmd.CommandPath()+" "+word]; instead != "" {
			return Instead{fmt.Errorf("the verb %s was removed", strconv.Quote(word)), instead}
		}
		return nil
	}
	for c := cmd; c != nil; c = c.Parent() {
		if instead := removed[c.CommandPath()+" "+word]; instead != "" {
			return Instead{fmt.Errorf("the flag %s was removed", word), instead}
		}
	}
	return nil
}
