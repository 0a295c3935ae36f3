// Package channel is the verbs of acpctl channel. They speak HTTP with the daemon, as the
// programs do that take part in channels.
package channel

import (
	"cmp"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/acpd/acpd/client/channels"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/app/cli/frame"
)

// verbs has the verbs of one run, and what they have learnt of the daemon.
type verbs struct {
	*frame.Frame
	agent    string                 // --as
	patience time.Duration          // with other machines that list their channels
	names    map[identity.ID]string // of daemons; nil until they are needed
	self     identity.ID            // this daemon's; known with names
	client   *channels.Client       // nil until it is needed
}

// NewChannelCmd returns the command channel with its verbs.
func NewChannelCmd(f *frame.Frame) *cobra.Command { return newCommand(f, 0) }

// newCommand does as [NewChannelCmd]. Other machines have patience to list their channels; 0: 5 s.
func newCommand(f *frame.Frame, patience time.Duration) *cobra.Command {
	c := &verbs{Frame: f, patience: patience}
	cmd := &cobra.Command{
		Use:   "channel",
		Short: "Channels of OpenIntent: agents that work on one intent talk there",
		Example: `  acpctl channel create questions --title 'Research Q1'
  acpctl channel ask questions reviewer 'Which schema?'
  acpctl channel tail questions -f --as reviewer
  acpctl channel reply questions MESSAGE 'v2.3' --as reviewer
  acpctl channel send questions 'Half done.'
  acpctl channel close questions`,
		Long: `Channels belong to an intent, on this machine or another. CHANNEL is a channel's id, or
INTENT/NAME, or a name that only one open channel has. TEXT is sent as {"text": TEXT};
--payload sends any other JSON object.

An agent of another machine than the intent's is AGENT@PEER, with the name that the peer
has here, or AGENT@ and its 64 digits; one of this machine is AGENT@here there.

--as says which agent you are (default $ACP_AGENT). Without it you are the operator of
this machine's daemon, who sees and manages everything that is here, but not where
ACP_SOCKET is set.`,
	}
	frame.RequireVerb(cmd)
	cmd.PersistentFlags().StringVar(&c.agent, "as", "", "the agent that you are (default $ACP_AGENT, else the operator)")
	cmd.RegisterFlagCompletionFunc("as", newFlagCompletion(c.completeAgents))
	cmd.AddCommand(
		c.newListCmd(), c.newCreateCmd(), c.newShowCmd(), c.newSendCmd(), c.newAskCmd(), c.newReplyCmd(),
		c.newTailCmd(), c.newUnsentCmd(), c.newCloseCmd(), c.newHomesCmd(),
	)
	for _, verb := range cmd.Commands() {
		run := verb.RunE
		verb.RunE = func(cmd *cobra.Command, args []string) error {
			if err := frame.CheckValuesNotEmpty(cmd, args); err != nil {
				return err
			}
			return explainRefusal(run(cmd, args))
		}
	}
	return cmd
}

// channelsClient returns the client of this run. The flags are read by then.
func (c *verbs) channelsClient() *channels.Client {
	if c.client == nil {
		c.client = &channels.Client{Daemon: &c.Daemon, Home: c.Home, Agent: c.callingAgentID(), ListPatience: c.patience}
	}
	return c.client
}

// callingAgentID returns the id of the agent that calls, "" for the operator.
func (c *verbs) callingAgentID() string { return cmp.Or(c.agent, os.Getenv("ACP_AGENT")) }
