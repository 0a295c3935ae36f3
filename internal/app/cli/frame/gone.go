package frame

import (
	"strings"

	"github.com/spf13/cobra"
)

// goneWords has verbs and flags that acpctl had once, as they are typed behind acpctl, with
// what to do instead.
var goneWords = map[string]string{
	"bench":             "ping shows the time of each answer: acpctl ping desk -c 100",
	"debug":             "the daemon serves profiles on a socket that its command line names: acpd --pprof PATH",
	"log-level":         "write log: {level: debug} into config.yaml in the state directory, then: acpctl reload",
	"oacp verify":       "acpctl checks no signatures any more; the reference tool does: oacp verify",
	"oacp doctor":       "acpctl doctor looks at what concerns acpd; the reference tool looks at the folders: oacp doctor",
	"oacp send --sign":  "acpctl signs nothing any more; send it with the reference tool, oacp send --sign: acpd carries it as it is",
	"oacp reply --sign": "acpctl signs nothing any more; answer with the reference tool, oacp send --sign: acpd carries it as it is",
}

// findGoneWord returns what to do instead of a verb or flag of cmd that acpctl had once. It
// returns "" for any other word.
func findGoneWord(cmd *cobra.Command, word string) string {
	typed := cmd.CommandPath() + " " + word
	return goneWords[strings.TrimPrefix(typed, cmd.Root().Name()+" ")]
}
