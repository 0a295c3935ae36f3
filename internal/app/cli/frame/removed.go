package frame

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// removed says what to type instead of a verb or flag that an older acpctl had, by its command line.
// A flag of a verb is one of the verbs below it too.
var removed = map[string]string{
	"acpctl bench":                  "acpctl ping desk -c 100, which shows the time of each answer",
	"acpctl debug":                  "acpd --pprof PATH, which serves profiles on the socket PATH while acpd runs",
	"acpctl log-level":              "acpctl reload, once config.yaml in the state directory has the line log: {level: debug}",
	"acpctl status --watch":         "watch acpctl status",
	"acpctl invite --qr":            "acpctl invite, and paste its line",
	"acpctl setup --wake":           "acpctl wake answers on",
	"acpctl restore --force":        "acpctl restore FILE, which says how to move aside what is there",
	"acpctl service --system":       "sudo systemctl enable --now acpd, once the package is installed, which has the machine's service",
	"acpctl service --instance":     "acpctl service install --home ~/.acp-NAME, since each state directory has a service of its own",
	"acpctl oacp verify":            "oacp verify, a verb of the reference tool: acpctl checks no signatures",
	"acpctl oacp doctor":            "oacp doctor, a verb of the reference tool; acpctl doctor looks at what concerns acpd",
	"acpctl oacp validate --strict": "acpctl oacp validate FILE, which has the verdicts of the reference tool",
	"acpctl oacp send --sign":       "oacp send --sign, with the reference tool: acpd carries what it has signed as it is",
	"acpctl oacp reply --sign":      "oacp send --sign, with the reference tool: acpd carries what it has signed as it is",
}

// reportRemoved returns the error for a verb or flag of cmd that an older acpctl had. For any other word it
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
